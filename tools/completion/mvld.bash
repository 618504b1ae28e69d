# SPDX-License-Identifier: MIT
#
# Completion of mvld(1) for bash: subcommands, options and what follows an option are what --help says.
_mvld()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} help candidates
    COMPREPLY=() # without any, file names are completed

    if ((COMP_CWORD == 1)); then
        candidates="--help --version $("$1" --help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  .*/\1/p')"
    else
        help=$("$1" "${COMP_WORDS[1]}" --help 2>/dev/null)
        case $(sed -n "s/^  $before \([A-Z]*\).*/\1/p" <<<"$help") in
        PASS) candidates=$("$1" passes 2>/dev/null | sed -n 's/^\([a-z-]*\): .*/\1/p') ;;
        WAY) candidates="wrapper unit set-interp" ;;
        PID) candidates=$(cd /proc && echo [0-9]*) ;;
        PROGRAM) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
        ?*) ;;
        *)
            case $current in
            -*) candidates=$(sed -n 's/^  \(-[a-z0-9-]*\).*/\1/p' <<<"$help") ;;
            */*) ;;
            *)
                candidates=$(sed -n 's/^  \([a-z]*\)  .*/\1/p' <<<"$help")
                [[ $help != *PROGRAM* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$current")
                ;;
            esac
            ;;
        esac
    fi
    [[ -z $candidates ]] || mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$current")
}
complete -o bashdefault -o default -F _mvld mvld
