# SPDX-License-Identifier: MIT
"""Browsers, headless, as another user, with their sandboxes.

Ten pictures a run, so twenty or more in each configuration.  The kernel is asked whether a
process that draws pages has a filter of system calls.
"""
from stock.case import Case

PAGE = r"""
cat > page.html <<'END'
<!DOCTYPE html><meta charset="utf-8"><style>body { font: 20px sans-serif }
.b { width: 200px; height: 80px; background: linear-gradient(red, blue); border-radius: 9px }</style>
<h1>Überschrift</h1><div class="b"></div><table border=1><tr><td>a<td>b</table><p id="p">nothing</p>
<canvas id="c" width="200" height="100"></canvas><svg width="100" height="100"><circle cx="50" cy="50" r="40" fill="green"/></svg>
<script>
let x = 0; for (let i = 0; i < 3e6; i++) x = (x * 31 + i) % 1000003;
const c = document.getElementById('c').getContext('2d');
for (let i = 0; i < 20; i++) { c.fillStyle = `hsl(${i * 18} 80% 50%)`; c.fillRect(i * 10, 0, 10, 5 * i); }
document.getElementById('p').textContent = x + ' ' + [..."mvld"].sort() + ' ' + new Intl.NumberFormat('de').format(1234567.89);
</script>
END
chmod 755 . ..; mkdir h; chown 65534 h; export HOME=$PWD/h XDG_RUNTIME_DIR=$PWD/h TMPDIR=$PWD/h
u() { timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
# Says that a process with this argument had a filter of system calls.
cat > watch.py <<'END'
import glob, re, sys, time
while True:
    for p in glob.glob("/proc/[0-9]*"):
        try:
            with open(p + "/cmdline") as c, open(p + "/status") as s:
                if sys.argv[1] in re.split("[\0 ]", c.read()) and "\nSeccomp:\t2\n" in s.read():
                    sys.exit("sandboxed")
        except OSError:
            pass
    time.sleep(0.05)
END
"""

CASES = [
    Case("chromium", "ten pictures of a page with scripts, canvas, SVG; its text after the scripts",
         ("chromium", "chromium-sandbox", "fonts-dejavu-core"), ("chromium", "setpriv"),
         ("sandboxed", "picture 10: 0", "488037 d,l,m,v 1.234.567,89"), root=True, other_user=True, timeout=900,
         under=("chromium",), script=PAGE + r"""
python3 watch.py --type=renderer 2> seen & w=$!
b() { u chromium --headless --disable-gpu --hide-scrollbars --window-size=640,480 "$@" file://$PWD/page.html 2> log; }
for i in $(seq 10); do rm -f h/p.png; b --screenshot=$PWD/h/p.png; echo "picture $i: $? $(sha256sum < h/p.png)"; done
b --virtual-time-budget=5000 --dump-dom | grep '488037 d'; kill $w 2> /dev/null; cat seen
"""),
    Case("firefox", "ten pictures of a page with scripts, canvas, SVG",
         ("firefox-esr", "fonts-dejavu-core"), ("firefox-esr", "setpriv"), ("sandboxed", "picture 10: 0"),
         root=True, other_user=True, timeout=900, under=("firefox-esr",), script=PAGE + r"""
python3 watch.py tab 2> seen & w=$!
for i in $(seq 10); do
    rm -f h/p.png; u firefox-esr --headless --window-size=640,480 --screenshot $PWD/h/p.png file://$PWD/page.html > log 2>&1
    echo "picture $i: $? $(sha256sum < h/p.png)"
done
kill $w 2> /dev/null; cat seen
"""),
]
