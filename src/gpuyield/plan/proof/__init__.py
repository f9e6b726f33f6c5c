"""What no plan can beat, and why: overloaded intervals, exact search, lemmas, prices, a solver."""
