"""`python -m oneread`: the command line without its script on the path.

See the page of the command line in the reference.
"""

from oneread.cli import main

if __name__ == "__main__":
    main()
