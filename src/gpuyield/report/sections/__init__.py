"""The parts of the page: each file turns facts into one section, or into None where there is nothing to say."""
