"""What people read: terminal, HTML, Excel, JSON, JUnit."""
