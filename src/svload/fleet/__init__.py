"""Many machines: the user's Ansible inventory, the load each machine can make, and svload on all of them."""
