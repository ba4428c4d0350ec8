#!/bin/bash
# Asks the role of this container whether it is well: exit code 0 when it answers
# 200. It needs nothing but bash, so that the image carries no HTTP client for it.
#
#   healthcheck [URL]      default: $HEALTHCHECK_URL; http:// only
url=${1:-${HEALTHCHECK_URL:?}}
rest=${url#http://}
authority=${rest%%/*}
path=${rest#"$authority"}
exec 3<>"/dev/tcp/${authority%:*}/${authority##*:}" || exit 1
printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "${path:-/}" "$authority" >&3
read -r -t 8 status <&3
case $status in
  "HTTP/1."[01]" 200"*) exit 0 ;;
esac
echo "$url answers: ${status:-nothing}"
exit 1
