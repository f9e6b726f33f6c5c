"""How a service is asked and how its answer is read: one small file for each protocol. No I/O here."""
