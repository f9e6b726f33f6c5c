"""Cost: prices, the reconciled bill, cost per verified outcome."""
