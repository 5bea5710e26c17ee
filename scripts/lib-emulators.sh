# shellcheck shell=bash
# Google's Firestore and Pub/Sub emulators, each started afresh on a free port and stopped with the script: the
# Firestore emulator grows slow with all the documents it ever held. Their jars are run directly, since `gcloud
# emulators` takes seconds to start, asks questions, and leaves its Java behind when it is killed.
# Sourced, after lib.sh.

# What the newest emulators ask for.
readonly emulator_java=17

declare -A emulator_pid=()
emulators_missing=()

# start_emulators FOLDER starts those that are installed, waits until they listen, and exports
# FIRESTORE_EMULATOR_HOST and PUBSUB_EMULATOR_HOST. It says what is missing and how to get it. One that the
# environment already names is used as it is. Logs go to FOLDER.
start_emulators() {
  local firestore=$1/firestore.log pubsub=$1/pubsub.log
  launch_emulator Firestore FIRESTORE_EMULATOR_HOST cloud-firestore-emulator \
    'cloud-firestore-emulator/cloud-firestore-emulator.jar' "$firestore"
  launch_emulator Pub/Sub PUBSUB_EMULATOR_HOST pubsub-emulator \
    'pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar' "$pubsub"
  await_emulator Firestore FIRESTORE_EMULATOR_HOST 'is now running' "$firestore"
  await_emulator Pub/Sub PUBSUB_EMULATOR_HOST 'Server started' "$pubsub"
}

stop_emulators() {
  local pid
  for pid in "${emulator_pid[@]}"; do stop "$pid"; done
  emulator_pid=()
}

# launch_emulator TITLE VARIABLE COMPONENT JAR LOG
launch_emulator() {
  local title=$1 variable=$2 component=$3 pattern=$4 log=$5 jar port
  if [[ -n ${!variable:-} ]]; then
    note "$title emulator: the one at $variable=${!variable}"
    return
  fi
  if ! jar=$(find_jar "$pattern"); then
    note "no $title emulator: the tests that need it skip (to have it: apt-get install google-cloud-cli-${component#cloud-}, or gcloud components install $component)"
    emulators_missing+=("$title")
    return
  fi
  if ! java_is_recent; then
    note "no Java $emulator_java for the $title emulator: the tests that need it skip (to have it: apt-get install openjdk-$emulator_java-jre-headless)"
    emulators_missing+=("$title")
    return
  fi
  port=$(free_port)
  # A process group of its own keeps it out of the terminal's Ctrl-C, and setpriv ends it even when this script is
  # killed outright.
  local outlive=()
  have setpriv && outlive=(setpriv --pdeathsig KILL)
  set -m
  case $component in
    cloud-firestore-emulator)
      "${outlive[@]}" java -Duser.language=en -cp "$jar" com.google.cloud.datastore.emulator.firestore.CloudFirestore \
        start --host=127.0.0.1 "--port=$port" >"$log" 2>&1 </dev/null &
      ;;
    *) "${outlive[@]}" java -jar "$jar" --host=127.0.0.1 "--port=$port" >"$log" 2>&1 </dev/null & ;;
  esac
  emulator_pid[$title]=$!
  set +m
  export "$variable=127.0.0.1:$port"
}

# await_emulator TITLE VARIABLE LINE LOG waits for the line of the log that says the emulator serves.
await_emulator() {
  local title=$1 variable=$2 line=$3 log=$4 deadline=$((SECONDS + 90))
  [[ -n ${emulator_pid[$title]:-} ]] || return 0
  until grep -q "$line" "$log" && listens "${!variable##*:}"; do
    if ((SECONDS > deadline)) || ! kill -0 "${emulator_pid[$title]}" 2>/dev/null; then
      tail -n 20 "$log" >&2
      die "the $title emulator did not start; its last words are above"
    fi
    sleep 0.2
  done
  say "$title emulator listens at ${!variable}"
}

# find_jar prints the emulator's jar in the first Google Cloud SDK that has it.
find_jar() {
  local root jar
  for root in "${CLOUDSDK_ROOT_DIR:-}" "$(sdk_of_gcloud)" /usr/lib/google-cloud-sdk /opt/google-cloud-sdk \
    "$HOME/google-cloud-sdk"; do
    [[ -n $root ]] || continue
    # The pattern may hold a * for the version.
    # shellcheck disable=SC2086
    for jar in "$root"/platform/$1; do
      [[ -f $jar ]] && printf '%s\n' "$jar" && return
    done
  done
  return 1
}

sdk_of_gcloud() {
  local gcloud
  gcloud=$(command -v gcloud) && gcloud=$(readlink -f "$gcloud") && dirname "$(dirname "$gcloud")"
}

java_is_recent() {
  local version
  have java && version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') && ((${version:-0} >= emulator_java))
}

# free_port prints a port that nobody listens on, below the range from which the kernel hands out ports, so that no
# test's own listener can take it in the meantime.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); listens "$port"; do :; done
  printf '%s\n' "$port"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
