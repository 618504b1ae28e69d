# SPDX-License-Identifier: MIT
"""Programs that people and scripts run all day: version control, archives, media, text, editors."""
from stock.case import Case

CASES = [
    Case("git", "init, 20 commits, merge, log, blame, gc, fsck, clone",
         ("git",), ("git",), ("Merge branch",), cheap=True,
         script=r"""
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1
git -c init.defaultBranch=main init -q r; cd r
for i in $(seq 20); do echo "$i" >> f; git add f; git commit -q -m "commit $i"; done
git checkout -q -b side HEAD~5; echo s > g; git add g; git commit -q -m side
git checkout -q main; git merge -q -m "Merge branch 'side'" side
git log --oneline --graph | head -8; git blame -s f | tail -2; git diff --stat HEAD~3
git gc -q; git fsck; git clone -q . ../c; git -C ../c rev-parse HEAD; git checkout nothing; echo "status $?"
"""),
    Case("git-clone", "over file:// and ssh-like pipes: pack, shallow, submodule, bundle, stash, rebase",
         ("git", "perl"), ("git",), ("Successfully rebased", "submodule 1"), cheap=True,
         under=("git", "git-upload-pack", "git-receive-pack"), script=r"""
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git config --global init.defaultBranch main; git config --global protocol.file.allow always; git config --global advice.detachedHead false
git init -q --bare s.git; git clone -q "file://$PWD/s.git" w 2> /dev/null; cd w
for i in $(seq 30); do seq $i 400 > f$i; git add .; git commit -q -m "c $i"; done; git push -q origin HEAD; cd ..
git clone -q "file://$PWD/s.git" v; git clone -q --depth 3 "file://$PWD/s.git" h; git -C h log --oneline; git -C v rev-parse HEAD
cd v; git checkout -q -b t HEAD~4; echo x > y; git add y; git commit -q -m y; git rebase main 2>&1 | tr '\r' '\n' | tail -1
echo dirty >> f1; git stash -q; git stash list; git stash pop -q; git diff --stat; git checkout -q f1; git log -S x --oneline -- y
git submodule --quiet add "file://$PWD/../s.git" m; echo "submodule $(git submodule | wc -l)"; git bundle create -q ../b main; git bundle verify -q ../b; echo "bundle $?"
git push -q origin t; git -C ../s.git branch; git archive main | sha256sum; git grep -c 39 main -- f2 f3; git format-patch -q -1 main; git apply --stat 0001*
git fsck --full 2>&1 | grep -v dangling; git push origin nothing; echo "status $?"
"""),
    Case("archives", "tar, gzip, bzip2, xz -T2, zip-like cpio; damaged archives; sparse and long names",
         ("tar", "gzip", "bzip2", "xz-utils"), ("tar", "gzip", "bzip2", "xz"), ("intact 5", "status 2"),
         cheap=True, script=r"""
mkdir d; seq 200000 > d/big; i=0; while [ $i -lt 150 ]; do i=$((i + 1)); echo $i > d/$(printf '%0100d' $i); done
ln -s big d/link; ln d/big d/hard; truncate -s 2M d/sparse; find d -exec touch -h -d @0 {} +; n=0
for z in '' z j J; do
    tar --sort=name --owner=0 --group=0 --numeric-owner -S -c${z}f a.$z d; mkdir x; tar -xf a.$z -C x && diff -r d x/d && n=$((n + 1)); rm -r x
    tar -tvf a.$z | sha256sum
done
xz -9e -T2 -k d/big -c | xz -dc | cmp - d/big && n=$((n + 1)); echo "intact $n"; sha256sum a. ; xz -t -T2 a.J; echo "status $?"
head -c 3000 a.J > b; tar -xJf b -C d > /dev/null 2>&1; echo "status $?"; gzip -t b; xz -t b; echo "status $?"; tar -xf nothing; echo "status $?"
zcat a.z | tar --to-command='wc -c' -xf - d/big; tar -C d -cf - . | tar -C . --exclude '*0*' -tf - | sort | tail -2
"""),
    Case("zstd-7z", "zstd -T2 with a dictionary, 7z solid archives with a password, both damaged",
         ("zstd", "p7zip-full"), ("zstd", "7z"), ("Everything is Ok", "same 3"), script=r"""
mkdir d; i=0; while [ $i -lt 300 ]; do i=$((i + 1)); echo "{\"id\": $i, \"name\": \"n$i\", \"sum\": $((i * i))}" > d/$i; done; seq 300000 > big; n=0
zstd -q -T2 -15 big -o big.zst && zstd -qdc big.zst | cmp - big && n=$((n + 1)); zstd -q --train d/* --maxdict=4096 -o dict; sha256sum dict
zstd -q -D dict d/7 -o 7.zst && zstd -qdc -D dict 7.zst | cmp - d/7 && n=$((n + 1)); zstd -qdc 7.zst; echo "status $?"; zstd -l 7.zst | tail -1 | cut -c1-20
7z a -bd -mmt2 -psecret -mhe a.7z d big | grep -v '^$' | grep -c .; 7z x -psecret -ox a.7z > log && diff -r d x/d && n=$((n + 1)); grep Ok log; echo "same $n"
7z t -pwrong a.7z > /dev/null 2>&1; echo "status $?"; head -c 2000 a.7z > b.7z; 7z t b.7z > /dev/null 2>&1; echo "status $?"; 7z a -tzip z.zip d > /dev/null; 7z l z.zip | tail -1 | awk '{print $(NF-1)}'
"""),
    Case("ffmpeg", "synthetic video and sound: x264, VP9, AAC, Opus, decoders and filters on 4 threads",
         ("ffmpeg",), ("ffmpeg", "ffprobe"), ("codec_name=h264", "nb_read_frames=50"), timeout=240, script=r"""
f() { ffmpeg -nostdin -v error -y -fflags +bitexact -flags +bitexact "$@"; }
f -f lavfi -i testsrc2=size=320x240:rate=25 -t 2 -threads 1 -c:v libx264 -preset fast v.mp4; sha256sum v.mp4
f -f lavfi -i sine=frequency=440 -t 2 -c:a aac a.m4a; f -i v.mp4 -i a.m4a -c copy a.mp4; ffprobe -v error -show_entries stream=codec_name a.mp4
ffprobe -v error -count_frames -select_streams v -show_entries stream=codec_name,nb_read_frames a.mp4
f -threads 4 -i v.mp4 -threads 1 -filter_threads 4 -vf 'scale=160:120,hflip,eq=contrast=1.2' -c:v libvpx-vp9 -b:v 200k -cpu-used 5 b.webm
f -threads 4 -i b.webm -f framemd5 - | sha256sum; f -i a.m4a -c:a libopus a.ogg; f -i a.ogg -f md5 -
f -i a.m4a -af 'aresample=8000,volume=0.5' -f s16le - | sha256sum; f -i v.mp4 -frames:v 1 -vf 'select=eq(n\,10)' p.png; sha256sum p.png
ffmpeg -v error -i nothing -f null -; echo "status $?"; ffmpeg -v error -h encoder=libx265 | head -1; ffmpeg -hide_banner -codecs | grep -c .
"""),
    Case("imagemagick", "drawing, resizing, JPEG, PNG, WebP-less formats, comparing, OpenMP",
         ("imagemagick",), ("convert", "identify", "compare"), ("120x90", "status 1"), script=r"""
convert -size 400x300 plasma:fractal -seed 7 /dev/null; convert -seed 7 -size 400x300 gradient:red-blue -swirl 90 -blur 0x3 a.png
identify -format '%wx%h %k %#\n' a.png; convert a.png -resize 120x90 -rotate 15 -colorspace Gray -quality 80 b.jpg; identify -format '%m %wx%h\n' b.jpg
convert a.png -resize 120x90 -fill white -stroke black -draw 'circle 60,45 60,10 line 0,0 119,89' c.gif; identify -format '%m %wx%h %#\n' c.gif
convert a.png b.jpg -append d.tiff; identify -format '%m %wx%h\n' d.tiff; compare -metric AE a.png c.gif null: ; echo " status $?"; convert rose: -depth 8 rgb:- | sha256sum
convert nothing.png x.png 2>&1 | sed 's/ @.*//'; echo "status $?"; montage a.png b.jpg c.gif -geometry 100x75+2+2 -background gray m.png 2> /dev/null; identify -format '%wx%h\n' m.png
"""),
    Case("xml-json", "xmllint with a schema and XPath, a broken document; jq over 5000 objects",
         ("libxml2-utils", "jq"), ("xmllint", "jq"), ("validates", "12497500"), script=r"""
(echo '<r>'; i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); echo "<e n='$i'>t$i</e>"; done; echo '</r>') > a.xml
cat > a.xsd <<'END'
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:complexType><xs:sequence>
<xs:element name="e" maxOccurs="unbounded"><xs:complexType><xs:simpleContent><xs:extension base="xs:string">
<xs:attribute name="n" type="xs:int"/></xs:extension></xs:simpleContent></xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>
END
xmllint --noout --schema a.xsd a.xml; xmllint --xpath 'sum(//e/@n)' a.xml; echo; xmllint --c14n a.xml | sha256sum; xmllint --format a.xml | sed -n 5p
echo '<a><b></a>' | xmllint -; echo "status $?"; echo 'dir /r/e[7]' | xmllint --shell a.xml | head -3
jq -n '[range(5000)] | add'; jq -nc '[range(5000) | {id: ., m: (. % 7)}] | group_by(.m) | map({m: .[0].m, n: length, s: (map(.id) | add)})'
echo '{"a": [1, {"b": null}], "c": "ä\u20ac"}' | jq -S '.. | scalars' ; echo '"2020-01-01T00:00:00Z"' | jq 'fromdate'; echo '{' | jq .; echo "status $?"; jq -n '"x" | test("^X$"; "i")'
"""),
    Case("vim", "-es: macros, sorting, regular expressions, a shell command; then keys on a terminal",
         ("vim", "bsdutils"), ("vim", "script"), ("<201>!", "shell says hi", "x <52>"), under=("vim",), script=r"""
cat > s.vim <<'END'
set nocompatible
edit a.c
call setline(1, map(range(300, 1, -1), '"sorted " . v:val'))
1,$sort n
%s/\v(\d+)$/<\1>/
1,$normal! A!
normal! gg50dd
call append(0, system('echo shell says hi'))
put =json_encode({'pi': printf('%.3f', 4 * atan(1.0)), 'l': map([1, 2, 3], 'v:val * 2')})
write! b.txt
quit!
END
vim -N -u NONE -i NONE -es -S s.vim; echo "status $?"; sed -n '1,3p;151,153p' b.txt; wc -l < b.txt; sha256sum b.txt; ls
printf ':%%s/sorted/x/\r:wq\r' > keys
script -q -e -c 'stty rows 24 cols 80; vim -N -u NONE -i NONE -n -s keys b.txt' /dev/null < /dev/null > screen
echo "status $?"; sed -n '2,4p' b.txt; vim -N -u NONE -es -c 'echo nothing()' -c 'qa!'; echo "status $?"
"""),
    Case("tmux", "a server, two windows, panes, sent keys, captured screens",
         ("tmux",), ("tmux",), ("pane says 42", "windows 2"), script=r"""
export TMUX_TMPDIR=$TMPDIR
t() { tmux -L mvld -f /dev/null "$@"; }
wait_for() {
    for i in $(seq 200); do t capture-pane -p -t "$1" | grep -q "$2" && break; sleep 0.05; done
    t capture-pane -p -t "$1" | grep "$2" | sort -u
}
t new-session -d -s s -x 80 -y 24 'PS1="> " sh'; wait_for s:0 '^>' > /dev/null; t send-keys -t s 'echo pane says $((6*7))' Enter; wait_for s:0 '^pane says'
t new-window -d -t s: cat; echo "windows $(t list-windows -t s | wc -l)"
t split-window -d -t s:0 'sleep 60'; t list-panes -t s:0 | cut -d: -f1,2 | sed 's/\[history.*//'
t send-keys -t s:1 typed Enter; wait_for s:1 '^typed'; t set-buffer 'from a buffer'; t paste-buffer -t s:1; wait_for s:1 'from a buffer'
t display-message -p -t s:0 '#{session_name} #{window_width}x#{window_height}'; t kill-server; sleep 0.3
t list-sessions > /dev/null 2>&1; echo "status $?"
"""),
    Case("dpkg-apt", "dpkg-query, dpkg --verify, apt-cache, apt list, dpkg-deb builds and unpacks",
         ("dpkg", "apt"), ("dpkg-query", "dpkg-deb", "apt-cache", "dpkg"), ("install ok installed", "Package: mvld-test"),
         cheap=True, script=r"""
mkdir -p l/partial; printf 'Dir::State::lists "%s";\nDir::Cache "%s";\n' "$PWD/l" "$PWD" > apt.conf; export APT_CONFIG=$PWD/apt.conf
dpkg-query -W -f '${Package} ${Status}\n' bash dash libc6; dpkg-query -W | sha256sum; dpkg -S /bin/bash; dpkg -L dash | tail -2
dpkg --compare-versions 1.0~a lt 1.0; echo "status $?"; apt-cache policy bash 2>&1 | sed -n 1,2p; apt-cache pkgnames | sort | sha256sum
apt-cache show dash | grep -m 1 Section; apt-get -s install nothing-of-this-name 2>&1 | tail -1
mkdir -p p/DEBIAN p/usr; echo x > p/usr/f; printf 'Package: mvld-test\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' > p/DEBIAN/control
find p -exec touch -d @0 {} +; SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -b p t.deb; dpkg-deb -I t.deb | tail -5; dpkg-deb -x t.deb q; cat q/usr/f; dpkg -i nothing.deb; echo "status $?"
"""),
]
