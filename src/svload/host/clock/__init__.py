"""What one machine's clocks read while another's read this: an exchange over TCP, and what its stamps prove."""
