# SPDX-License-Identifier: MIT
"""Test suites of others, and packages that come as wheels."""
from stock.case import Case

# A python3 whose interpreter is libpython: Debian's own has it linked in.
PYTHON = r"""
cat > p.c <<'END'
#include <Python.h>
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
END
cc -O1 -o shared-python p.c $(python3-config --includes) $(python3-config --ldflags --embed)
"""

# Five seconds to a minute each, also under the plain loader: loops over locks and reference counts that
# end by the clock (1bit-mutex, mutex, rec-mutex, rwlock, performance, thread-pool-slow, *-refcount*,
# thread-deprecated), timers and sleeping children (timeout, io-channel-basic), thirty starts of a
# Python script (codegen.py).
# What stays scatters in one place, plainly, too: the four tests that use python-dbusmock fail when their
# dbus-daemon takes about five seconds to end, because dbusmock then kills who may be gone.  A disk that
# is busy with removing gigabytes holds it up for seconds.
SLOW_OF_GLIB = """1bit-mutex codegen.py io-channel-basic mutex objects-refcount1 performance properties-refcount3
rec-mutex rwlock signals-refcount1 signals-refcount2 signals-refcount3 signals-refcount4 thread-deprecated
thread-pool-slow timeout"""

# More than some seconds each.
SLOW_OF_CPYTHON = """test_asyncio test_bz2 test_compile test_compileall test_cppext test_distutils
test_eintr test_faulthandler test_ftplib test_imaplib test_io test_largefile test_lib2to3 test_logging test_lzma test_mailbox
test_math test_multiprocessing_fork test_multiprocessing_main_handling test_os test_pathlib test_pickle test_poll test_poplib
test_pydoc test_queue test_regrtest test_selectors test_set test_signal test_source_encoding test_ssl test_statistics
test_subprocess test_support test_tarfile test_threading test_unittest test_venv test_weakref test_xmlrpc
test_zipfile""".replace("\n", " ")

# In neither.  test_socket waits forever on some machines.  The others take two to three minutes each,
# also under the plain loader: hundreds of processes that are forked, as in test_multiprocessing_fork,
# or started anew, as in test_multiprocessing_main_handling.
LEFT_OUT_OF_CPYTHON = """test_socket test_concurrent_futures test_multiprocessing_forkserver
test_multiprocessing_spawn """.replace("\n", " ")

# regrtest ends a line with how long others have been running.
CPYTHON = r"""
$MADE/shared-python -m test -j2 --timeout 900 WHICH > out 2>&1; echo "status $?"
sed -n 's/^[0-9:]* load avg: [0-9.]* \[[^]]*\] \(test_[^ ]* [a-z]*\).*/\1/p' out | sort
"""

CASES = [
    Case("wheels", "numpy, scipy and pandas from PyPI, in Debian's python3 and in one with libpython",
         ("python3-venv", "libpython3-dev", "gcc"), ("python3", "python3-config", "gcc"),
         ("singular 16.848103", "root 0.7390851", "group a 4950", "on purpose"),
         under=("python", "shared-python"), timeout=300, make=PYTHON + r"""
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check --only-binary :all: numpy scipy pandas
""", script=r"""
cat > s.py <<'END'
import io, multiprocessing, sys
import numpy as np, pandas as pd, scipy.fft, scipy.integrate, scipy.linalg, scipy.optimize, scipy.sparse, scipy.sparse.linalg, scipy.spatial, scipy.stats
def square(n): return n * n
if __name__ == "__main__":
    print("singular %.6f" % np.linalg.svd(np.arange(1., 10).reshape(3, 3))[1][0])
    r = np.random.default_rng(7); a = r.normal(size=(200, 200))
    print(np.allclose(np.linalg.inv(a) @ a, np.eye(200)), np.round(np.sort(r.normal(size=5)), 6), len(np.unique(r.integers(0, 99, 9999))))
    print("root %.7f" % scipy.optimize.brentq(lambda x: np.cos(x) - x, 0, 1), scipy.optimize.minimize(scipy.optimize.rosen, [1.3, 0.7]).x.round(3))
    print(scipy.integrate.quad(np.sin, 0, np.pi)[0].__round__(9), scipy.linalg.expm(np.zeros((2, 2))).tolist(), abs(scipy.fft.fft(np.arange(8.)))[1].round(6))
    s = scipy.sparse.diags([-1, 2.5, -1], [-1, 0, 1], shape=(500, 500)).tocsc()
    print(scipy.sparse.linalg.spsolve(s, np.ones(500)).sum().round(6), scipy.stats.norm.cdf(1.96).round(6), len(scipy.spatial.Delaunay(r.random((50, 2))).simplices) > 50)
    f = pd.DataFrame({"g": list("ab") * 50, "n": range(100), "t": pd.date_range("2020-01-01", periods=100)})
    print("group a", f.assign(n=f.n + f.g.eq("a")).groupby("g").n.sum()["a"] * 2 - 50, f.set_index("t").n.resample("MS").mean().round(3).tolist())
    c = io.StringIO(); f.to_csv(c); c.seek(0); print(pd.read_csv(c).merge(f, on="n").shape, f.pivot_table(index="g", values="n", aggfunc="std").round(4).values.tolist())
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(square, range(4)))
    try: pd.DataFrame({"a": [1, 2], "b": [1]})
    except ValueError as e: print(e)
    sys.exit("error on purpose")
END
$MADE/v/bin/python s.py; echo "status $?"; PYTHONPATH=$(echo $MADE/v/lib/python3*/site-packages) $MADE/shared-python s.py; echo "status $?"
"""),
    Case("glib-tests", "glib's installed tests: status, and how many are ok, of each",
         ("libglib2.0-tests",), ("/usr/share/installed-tests/glib",), ("gvariant 0 ", "dbus-appinfo"), timeout=1200,
         under=("gvariant", "signals", "spawn-test", "file", "cxx-17"), script=r"""
for t in /usr/share/installed-tests/glib/*.test; do
    n=$(basename $t .test); case " $(echo $SLOW) " in *" $n "*) continue ;; esac
    mkdir $n; cd $n; timeout 120 sh -c "$(sed -n 's/^Exec=//p' $t)" > out 2>&1; echo "$n $? $(grep -c '^ok' out) $(grep -c '^not ok' out)"; cd ..
done
""".replace("$SLOW", SLOW_OF_GLIB.replace("\n", " "))),
    Case("cpython-tests", "CPython's own tests that take seconds, with the interpreter in libpython",
         ("libpython3.11-testsuite", "libpython3-dev", "gcc"), ("python3-config", "gcc", "/usr/lib/python3.11/test/test_abc.py"),
         ("test_ctypes passed", "test_gc passed"), under=("shared-python",), timeout=1800, make=PYTHON,
         script=CPYTHON.replace("WHICH", "-x " + LEFT_OUT_OF_CPYTHON + SLOW_OF_CPYTHON)),
    Case("cpython-slow", "those that take longer: asyncio, multiprocessing, subprocess, signals, threads",
         ("libpython3.11-testsuite", "libpython3-dev", "gcc"), ("python3-config", "gcc", "/usr/lib/python3.11/test/test_abc.py"),
         ("test_subprocess passed", "test_threading passed"), under=("shared-python",), timeout=3600, make=PYTHON,
         script=CPYTHON.replace("WHICH", SLOW_OF_CPYTHON)),
]
