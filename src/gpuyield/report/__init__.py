"""Facts as sentences, tables, charts, JSON, Markdown and one HTML page. No reading, no computing of new figures."""
