"""Outcomes: import, and the policy that derives what became of them."""
