"""Files for other tools: JUnit, Markdown, OpenMetrics; and what writes all of derived/ in order."""
