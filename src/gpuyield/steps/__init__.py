"""One function per verb: the only place where reading, writing and computing meet."""
