"""What leaves the compiler: PTX text, launch contracts, cubins, launches; README.md gives the reading order."""
