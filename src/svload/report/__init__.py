"""Output for people: terminal, HTML, Excel, JUnit."""
