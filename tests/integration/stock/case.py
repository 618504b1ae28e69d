# SPDX-License-Identifier: MIT
"""What a case of stock_programs.py is: a shell script, and what is known about it.

The script runs in an empty folder, with HOME and TMPDIR empty folders beside it,
standard input closed to /dev/null, and its output must not depend on when and
where it runs.  What does depend on it the case itself removes: in the script, or
with `normalise`, which names exactly what may differ.  What takes long to make, or comes
from elsewhere, `make` makes, once and plainly, in the folder $MADE; its programs and
libraries are analysed as those of packages are, and lie there for all runs.
"""
from dataclasses import dataclass


@dataclass
class Case:
    name: str
    what: str             # one line for people
    packages: tuple       # Debian packages; the first one's version is reported
    needs: tuple          # programs (or absolute paths) that must be there
    expect: tuple         # strings that the output must contain: nothing else shows that it worked
    script: str
    make: str = ""        # a shell script, run in $MADE
    under: tuple = ()     # programs that must have been started with mvld; () means `needs`
    elsewhere: tuple = ()  # of these, those where the configuration cannot be read: another root
    filtered: tuple = ()  # of these, those under a filter: `mvld run` starts them as with --direct, and says so
    other_user: bool = False  # its programs run as somebody else, whose snapshots are not watched
    normalise: tuple = ()  # (regular expression, replacement) pairs for the output
    cheap: bool = False   # part of `./dev test`: its packages are installed for other tests, too
    root: bool = False    # needs root outside of user namespaces
    probe: str = ""       # shell: succeeds where the machine permits what the case does
    timeout: int = 120

    def must_be_seen(self):
        return self.under or tuple(name.rsplit("/", 1)[-1] for name in self.needs)
