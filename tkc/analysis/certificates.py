"""Do the certificates of a program hold?"""
def wrong(c, k): return {}
