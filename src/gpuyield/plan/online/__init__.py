"""Plans in force: arrivals, early and late ends, changed capacity; history and what it says of run times."""
