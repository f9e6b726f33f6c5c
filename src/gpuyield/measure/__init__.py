"""Measure: the highest rate that a service really sustains: arrivals, sender, judge, rate search."""
