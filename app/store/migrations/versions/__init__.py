"""The revisions, one file each. A released revision never changes."""
