# SPDX-License-Identifier: MIT
"""Servers on the loopback and their clients, cryptography, copying between places."""
from stock.case import Case
from stock.databases import PORT

CASES = [
    Case("curl", "python's http.server: ranges, POST, parallel downloads, redirect, 404",
         ("curl", "python3", "perl"), ("curl", "python3"), ("parallel 20", "HTTP 404"), script=PORT + r"""
mkdir d; seq 100000 > d/f; for i in $(seq 20); do echo "$i" > d/$i; done
cat > s.py <<'END'
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])); self.send_response(201)
        self.end_headers(); self.wfile.write(body.upper() + b"\n")
    def do_GET(self):
        if self.path == "/moved": self.send_response(302); self.send_header("Location", "/7"); self.end_headers()
        else: super().do_GET()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
END
(cd d; exec timeout 60 python3 ../s.py "$port") & server=$!; u=http://127.0.0.1:$port
for i in $(seq 100); do curl -fso /dev/null $u/1 && break; sleep 0.05; done
curl -s $u/f | sha256sum; curl -sd hello $u/x; curl -sL $u/moved; curl -s -o /dev/null -w 'HTTP %{http_code}\n' $u/no
curl -s -Z --no-progress-meter "$u/[1-20]" -o 'o#1' 2> /dev/null; echo "parallel $(ls o* | wc -l)"; cat o* | sort -n | sha256sum
curl -sS http://127.0.0.1:1/ 2>&1 | sed 's/after [0-9]* ms/after N ms/'; curl -sS nowhere://x; echo "status $?"
curl -V | grep -o 'OpenSSL/[0-9.]*'; kill $server; wait $server 2> /dev/null; echo "status $?"
"""),
    Case("nginx", "two workers, modules, gzip, a proxied location, reload under 200 requests",
         ("nginx-light", "curl", "perl"), ("nginx", "curl"), ("hello from 7", "reloaded", "proxied"), root=True,
         script=PORT + r"""
chmod 755 . ..; mkdir -p w/t l; for i in $(seq 20); do echo "hello from $i" > w/$i; done; seq 20000 > w/big.txt
cat > n.conf <<END
worker_processes 2; pid $PWD/pid; error_log $PWD/l/error warn; user www-data;
$(cat /etc/nginx/modules-enabled/*.conf 2> /dev/null | sed 's,modules/,/usr/lib/nginx/modules/,')
events { worker_connections 64; }
http { access_log $PWD/l/access; client_body_temp_path $PWD/w/t; gzip on; gzip_types text/plain; gzip_min_length 1;
  proxy_temp_path $PWD/w/p; fastcgi_temp_path $PWD/w/f; uwsgi_temp_path $PWD/w/u; scgi_temp_path $PWD/w/s;
  default_type text/plain; server { listen 127.0.0.1:$port; root $PWD/w; location /r { return 200 "reload-1\n"; }
  location /p/ { proxy_pass http://127.0.0.1:$port/; add_header X-By proxied; } } }
END
nginx -q -t -p "$PWD" -c "$PWD/n.conf"; echo "test $?"; nginx -p "$PWD" -c "$PWD/n.conf"; echo "start $?"; u=http://127.0.0.1:$port
curl -s $u/7; curl -s $u/p/9; curl -sI $u/p/9 | grep proxied; curl -s $u/r; curl -s --compressed $u/big.txt | sha256sum
curl -sH 'Accept-Encoding: gzip' $u/big.txt | head -c 2 | od -An -tx1; curl -s -o /dev/null -w '%{http_code}\n' $u/missing
sed -i s/reload-1/reloaded/ n.conf
for i in $(seq 10); do curl -s "$u/[1-20]"; [ $i = 5 ] && nginx -p "$PWD" -c "$PWD/n.conf" -s reload 2> /dev/null; done | sort | uniq -c | sha256sum
r() { for k in 1 2 3 4 5 6 7 8 9 10; do curl -s $u/r; done | sort -u; }  # old workers accept for a while
for i in $(seq 20); do [ "$(r)" = reloaded ] && break; nginx -p "$PWD" -c "$PWD/n.conf" -s reload 2> /dev/null; sleep 1; done; r
nginx -p "$PWD" -c "$PWD/n.conf" -s quit 2> /dev/null; for i in $(seq 400); do [ -e pid ] || break; sleep 0.05; done; ls pid; grep -c '/p/9.* 200 ' l/access; sed 's/.*#[0-9]*: \*[0-9]* //; s/work.w/W/; s/:[0-9]*"/"/; s,"/.*/W,"W,' l/error
"""),
    Case("openssl", "keys, certificates, signatures, ciphers, a TLS server and its client",
         ("openssl", "perl"), ("openssl",), ("Verified OK", "Verification: OK", "over TLS"), cheap=True,
         script=PORT + r"""
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=localhost -days 9 2> /dev/null
openssl genrsa -out r 2048 2> /dev/null; openssl rsa -in r -pubout -out p 2> /dev/null; seq 1000 > f
openssl dgst -sha256 -sign r -out s f; openssl dgst -sha256 -verify p -signature s f
for c in aes-256-cbc chacha20 camellia-128-ctr; do
    openssl enc -$c -pbkdf2 -k x -in f | openssl enc -d -$c -pbkdf2 -k x | openssl dgst -sha3-256
done
openssl x509 -in c -noout -subject; openssl verify -CAfile c c; openssl prime -generate -bits 64 | wc -c
openssl dgst -provider legacy -provider default -md4 f; openssl enc -provider legacy -provider default -bf-cbc -k x -md md5 -S 0102030405060708 -in f 2> /dev/null | sha256sum
timeout 60 openssl s_server -accept "127.0.0.1:$port" -cert c -key k -rev -quiet & server=$!
talk() { (echo 'SLT revo'; sleep 1) | openssl s_client -connect "127.0.0.1:$port" -CAfile c -servername localhost 2>&1; }
for i in $(seq 50); do talk > log; grep -q 'over TLS' log && break; sleep 0.1; done
grep -a 'over TLS\|^Verification:\|^ *Protocol *: TLS\|^New, ' log | sort -u; kill $server; wait $server 2> /dev/null; echo "status $?"; openssl wrong 2>&1 | head -1; openssl x509 -in f 2> /dev/null; echo "status $?"
"""),
    Case("ssh-keygen", "four kinds of keys, signatures, an agent with two keys, a certificate",
         ("openssh-client",), ("ssh-keygen", "ssh-agent", "ssh-add"), ("Good \"n\" signature", "ED25519"),
         normalise=((r"SHA256:[A-Za-z0-9+/]{43}", "HASH"),), script=r"""
for t in ed25519 ecdsa 'rsa -b 2048'; do ssh-keygen -q -t $t -N '' -C c -f "k-${t%% *}"; done; ls
ssh-keygen -p -P '' -N 'phrase' -f k-rsa -q; ssh-keygen -y -P phrase -f k-rsa | cut -c1-30; ssh-keygen -y -P no -f k-rsa; echo "status $?"
echo data > f; ssh-keygen -q -Y sign -n n -f k-ed25519 f; echo "a@b $(cut -d' ' -f1,2 k-ed25519.pub)" > allowed
ssh-keygen -Y verify -f allowed -I a@b -n n -s f.sig < f; echo x | ssh-keygen -Y verify -f allowed -I a@b -n n -s f.sig; echo "status $?"
ssh-keygen -q -s k-ecdsa -I id -n root -V 20200101:20300101 k-ed25519.pub; ssh-keygen -L -f k-ed25519-cert.pub | sed -n '2p;5,7p'
ssh-agent sh -c 'ssh-add -q k-ed25519 k-ecdsa; ssh-add -l; ssh-add -qD; ssh-add -l'; echo "status $?"
ssh -V 2>&1 | cut -c1-9; ssh -o BatchMode=yes -p 1 127.0.0.1 true; echo "status $?"; ssh -G host | grep -c .
"""),
    Case("gpg", "a key, its agent, signature, encryption to it and by password, a wrong file",
         ("gnupg", "gpg-agent"), ("gpg", "gpg-agent"), ("Good signature", "decrypted 1000"),
         normalise=((r"[0-9A-F]{16,40}", "KEY"), (r"Signature made .*", "Signature made DATE"), (r"gpg: /\S*: ", "gpg: ")),
         script=r"""
export GNUPGHOME=$PWD/g; mkdir -m 700 g; gpg() { command gpg --batch --yes --no-tty --pinentry-mode loopback "$@"; }
gpg -q --passphrase '' --quick-generate-key 'A <a@b>' ed25519 sign never 2> /dev/null; echo "key $?"
gpg -q --passphrase '' --quick-add-key "$(gpg --list-keys --with-colons 2> /dev/null | grep ^fpr | head -1 | cut -d: -f10)" cv25519 encr never
seq 1000 > f; gpg -q --sign -o f.gpg f; gpg --verify f.gpg 2>&1 | grep -v 'issuer\|^$'; gpg -q --detach-sign f; gpg -q --verify f.sig f 2>&1 | head -3
gpg -q --trust-model always -r a@b -e -o e f; echo "decrypted $(gpg -q -d e | wc -l)"
gpg -q --passphrase x -c -o s f; gpg -q --passphrase x -d s | sha256sum; gpg -q --passphrase y -d s 2>&1 | head -2; echo x >> f
gpg -q --verify f.sig f 2>&1 | tail -1; gpg --list-secret-keys --with-colons | grep -c '^ss[bk]'; gpgconf --kill gpg-agent; echo "status $?"
"""),
    Case("rsync", "2 trees with links and holes, a second run, deletions, a daemon on the loopback",
         ("rsync", "perl"), ("rsync",), ("same tree", "from the daemon"), script=PORT + r"""
mkdir -p a/d/e; for i in $(seq 200); do echo "$i" > a/d/$i; done; ln -s 1 a/d/l; ln a/d/2 a/d/h; truncate -s 1M a/hole; seq 20000 > a/big
export TZ=UTC; find a -exec touch -h -d 2020-01-01 {} +
rsync -aHS a/ b; diff -r a b && echo "same tree"; stat -c %h b/d/2; rm a/d/19*; echo new > a/new; sed -i 's/777/x/' a/big
rsync -aHSi --delete a/ b | sort | sha256sum; diff -r a b && echo "same tree"; rsync -an --stats a/ b | grep 'Number of files\|transferred'
printf 'use chroot = no\nlog file = %s\n[m]\npath = %s\nread only = yes\n' "$PWD/log" "$PWD/b" > conf
timeout 60 rsync --daemon --no-detach --address 127.0.0.1 --port "$port" --config conf & server=$!
for i in $(seq 100); do rsync -q "rsync://127.0.0.1:$port/" > /dev/null 2>&1 && break; sleep 0.05; done
rsync -az "rsync://127.0.0.1:$port/m/" c; diff -r b c && echo "from the daemon"; rsync "rsync://127.0.0.1:$port/"
rsync -a f "rsync://127.0.0.1:$port/m/" > /dev/null 2>&1; echo "status $?"; kill $server; wait $server 2> /dev/null; echo "status $?"
"""),
]
