"""What leaves the compiler: PTX text, launch contracts, cubins, and launches; see README.md for the order to read in."""
