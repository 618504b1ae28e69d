# SPDX-License-Identifier: MIT
#
# Completion of mvld(1) for fish: subcommands, options and what follows an option are what --help says.
function __mvld_complete
    set -l words (commandline -opc) # up to the cursor
    set -l current (commandline -ct)
    set -l mvld $words[1]
    if test (count $words) -eq 1
        $mvld --help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  *\(.*\)/\1\t\2/p'
        printf '%s\n' --help --version
        return
    end
    set -l help ($mvld $words[2] --help 2>/dev/null)
    switch (printf '%s\n' $help | sed -n "s/^  $words[-1] \([A-Z]*\).*/\1/p")
        case PASS
            $mvld passes 2>/dev/null | sed -n 's/^\([a-z-]*\): .*/\1/p'
        case WAY
            printf '%s\n' wrapper unit set-interp
        case PID
            string match -r '\d+$' /proc/*
        case PROGRAM
            __fish_complete_command
        case '?*' # a file, or a word that only the user knows
        case '*'
            if string match -q -- '-*' $current
                printf '%s\n' $help | sed -n 's/^  \(-[a-z0-9-]*\) *[A-Z.=]*  *\(.*\)/\1\t\2/p; s/^  \(-[a-z0-9-]*\) [A-Z.=]*$/\1/p'
            else
                printf '%s\n' $help | sed -n 's/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
                string match -q '*PROGRAM*' "$help"; and __fish_complete_command
            end
    end
end
complete -c mvld -a '(__mvld_complete)' # and files
complete -c mvld -f -n 'test (count (commandline -opc)) -eq 1'
