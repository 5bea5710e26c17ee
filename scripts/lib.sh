# shellcheck shell=bash
# What the scripts share: saying things to a person, and finding or fetching what a step needs. Sourced, never run.
# shellcheck disable=SC2034 # not every script uses every colour

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  readonly bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
else
  readonly bold='' red='' green='' yellow='' plain=''
fi

# say prints what the script does now.
say() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }

# note prints what a person should know but need not act on.
note() { printf '%s  - %s%s\n' "$yellow" "$*" "$plain"; }

# die prints why the script cannot go on, and ends it.
die() {
  printf '%serror:%s %s\n' "$red" "$plain" "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# need_go ends the script when Go is missing, or older than go.mod asks for and not allowed to fetch the newer one.
need_go() {
  have go || die "Go is not installed: https://go.dev/dl has it (go.mod names the version)"
  local why
  why=$(go list -m 2>&1) || die "Go cannot read this module: $why"
}

# install_package installs a Debian package where that needs no questions (root, apt-get), and fails elsewhere.
install_package() {
  [[ $(id -u) == 0 ]] && have apt-get || return 1
  note "installing $*"
  local try
  for try in install update-and-install; do
    [[ $try == install ]] || apt-get update -qq >/dev/null 2>&1 || return 1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
  done
  return 1
}

# reachable tells within seconds whether a host answers on port 443.
reachable() {
  if have curl; then
    curl --silent --output /dev/null --connect-timeout 4 --max-time 6 "https://$1/" 2>/dev/null
  else
    timeout 4 bash -c "</dev/tcp/$1/443" 2>/dev/null
  fi
}

# stop ends a process group that was started with `set -m`, and waits until it is gone.
stop() {
  kill -TERM -- "-$1" 2>/dev/null || return 0
  wait "$1" 2>/dev/null || true
}
