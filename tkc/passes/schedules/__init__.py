"""The pieces of `lower-schedules`: the order of items, and items that the hardware hands out."""
