# SPDX-License-Identifier: MIT
"""Programs of a desktop, in batch: hundreds of shared objects, most of them of dlopen."""
from stock.case import Case

CASES = [
    Case("gimp", "a script: gradient, selection, blur, scaling, rotating, BMP and JPEG by plug-ins",
         ("gimp",), ("gimp",), ("made", "p.bmp", "q.bmp"), timeout=600,
         under=("gimp", "script-fu", "file-jpeg", "file-bmp"), script=r"""
cat > s.scm <<'END'
(let* ((image (car (gimp-image-new 320 200 RGB)))
       (layer (car (gimp-layer-new image 320 200 RGB-IMAGE "l" 100 LAYER-MODE-NORMAL))))
  (gimp-image-insert-layer image layer 0 0) (gimp-context-set-foreground '(200 30 60))
  (gimp-context-set-gradient-fg-bg-rgb)
  (gimp-drawable-edit-gradient-fill layer GRADIENT-LINEAR 0 FALSE 1 0 FALSE 0 0 320 200)
  (gimp-image-select-ellipse image CHANNEL-OP-REPLACE 50 40 120 100)
  (plug-in-gauss RUN-NONINTERACTIVE image layer 15 15 0) (gimp-selection-none image)
  (plug-in-unsharp-mask RUN-NONINTERACTIVE image layer 3 0.5 0)
  (gimp-image-scale image 160 100) (gimp-image-rotate image ROTATE-90)
  (let ((last (car (gimp-image-get-active-layer image))))
    (file-bmp-save RUN-NONINTERACTIVE image last "p.bmp" "p.bmp")
    (file-jpeg-save RUN-NONINTERACTIVE image last "dated.jpg" "dated.jpg" 0.9 0 0 0 "" 0 1 0 1)))
(let* ((image (car (gimp-file-load RUN-NONINTERACTIVE "dated.jpg" "dated.jpg"))))
  (file-bmp-save RUN-NONINTERACTIVE image (car (gimp-image-get-active-layer image)) "q.bmp" "q.bmp"))
(gimp-message "made")
END
mkdir -p plug-ins $HOME/.config/GIMP/2.10; echo "(plug-in-path \"$PWD/plug-ins\")" > $HOME/.config/GIMP/2.10/gimprc
for p in script-fu file-bmp file-jpeg file-png tile warp; do ln -s /usr/lib/gimp/2.0/plug-ins/$p plug-ins; done
gimp -i -b '(load "s.scm")' -b '(gimp-quit 0)' 2>&1 | grep -v 'gegl copy\|^Extension\|^Gtk-\|^$'; sha256sum *.bmp
"""),
    Case("inkscape", "a drawing with gradient, blur and text to PNG, PDF and plain SVG; queries",
         ("inkscape", "fonts-dejavu-core"), ("inkscape",), ("20.6445", "o.svg"), timeout=300, script=r"""
cat > d.svg <<'END'
<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><defs><linearGradient id="g"><stop offset="0" stop-color="red"/>
<stop offset="1" stop-color="blue"/></linearGradient><filter id="f"><feGaussianBlur stdDeviation="3"/></filter></defs>
<rect id="r" width="200" height="90" fill="url(#g)"/><circle id="c" cx="220" cy="120" r="50" fill="green" filter="url(#f)"/>
<path id="p" d="M10 190 C 40 10, 65 10, 95 80 S 150 150, 180 80" stroke="black" fill="none"/>
<text id="t" x="20" y="150" font-family="DejaVu Sans" font-size="24">text</text></svg>
END
q() { inkscape "$@" 2>&1 | grep -v '^$\|WARNING'; }; q d.svg --export-type=png -o i.png; q d.svg --export-type=ps -o i.ps; q --query-id=t -X -W d.svg
q --actions="select-by-id:r;object-to-path;select-clear;select-by-id:t;object-to-path;export-plain-svg;export-filename:o.svg;export-do" d.svg
q d.svg --export-type=pdf -o i.pdf; sed -i '/Date/d' i.pdf i.ps; sha256sum i.* o.svg
"""),
    Case("libreoffice", "text to ODT, DOCX, PDF; a table with formulas to XLSX, ODS, CSV",
         ("libreoffice-writer-nogui", "libreoffice-calc-nogui"), ("soffice",),
         ("Some bold text", "Calc Office Open XML", "6.75", "%PDF"), timeout=600,
         under=("soffice.bin", "oosplash"), script=r"""
printf 'name,n,f\na,1,2.5\nb,2,3.25\nc,3,=SUM(C2:C3)+1\n' > t.csv
printf '<h1>Title</h1><p>Some <b>bold</b> text and a list</p><ul><li>one<li>two</ul><table border=1><tr><td>x<td>y</table>' > h.html
c() { soffice --headless --convert-to "$@" 2>&1 | grep -v javaldx; }; c odt h.html; c docx h.odt; c txt:Text h.docx; cat h.txt
c xlsx t.csv; c ods t.xlsx; c csv t.ods; cat t.csv; c pdf h.docx t.ods; head -c 8 *.pdf; sed '/Date/d;/^<[0-9A-F]*>/d;/DocChecksum/d;/\/ID/d' h.pdf | sha256sum
"""),
]
