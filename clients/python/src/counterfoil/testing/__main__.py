"""The practice supplier as a process of its own."""

from .supplier import main

main()
