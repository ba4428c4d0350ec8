package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// ReplayWindow is how far the time of a signed request can be from the time of its arrival.
const ReplayWindow = 5 * time.Minute

// Request is a request to the address of a trigger. The names of headers are in small letters.
type Request struct {
	Headers map[string]string
	Body    []byte
	At      time.Time // of its arrival
}

// Reasons why a request does not prove its sender.
const (
	SignatureMissing  = "signature_missing"
	SignatureMismatch = "signature_mismatch"
	TimestampOutside  = "timestamp_outside_window"
)

// Verify returns why a request does not prove that its sender has the secret; empty: it does.
func Verify(auth Auth, secret string, r Request) (reason string) {
	switch auth {
	case Bearer:
		return verifyBearer(secret, r)
	case Standard:
		return verifyStandard(secret, r)
	case GitHub:
		return verifyGitHub(secret, r)
	case GitLab:
		if r.Headers["webhook-signature"] != "" {
			return verifyStandard(secret, r)
		}

		return equalTokens(secret, r.Headers["x-gitlab-token"])
	case Slack:
		return verifySlack(secret, r)
	default:
		return SignatureMissing
	}
}

func verifyBearer(secret string, r Request) string {
	scheme, token, _ := strings.Cut(r.Headers["authorization"], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return SignatureMissing
	}

	return equalTokens(secret, strings.TrimSpace(token))
}

// equalTokens compares digests, so that the time of the comparison does not depend on the length
// of the secret.
func equalTokens(secret, token string) string {
	if token == "" {
		return SignatureMissing
	}

	a, b := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return SignatureMismatch
	}

	return ""
}

func verifyGitHub(secret string, r Request) string {
	given, found := strings.CutPrefix(r.Headers["x-hub-signature-256"], "sha256=")
	if !found {
		return SignatureMissing
	}

	return equalMACs(given, mac([]byte(secret), r.Body))
}

func verifySlack(secret string, r Request) string {
	given, found := strings.CutPrefix(r.Headers["x-slack-signature"], "v0=")
	if !found {
		return SignatureMissing
	}

	at := r.Headers["x-slack-request-timestamp"]
	if reason := checkTime(at, r.At); reason != "" {
		return reason
	}

	return equalMACs(given, mac([]byte(secret), []byte("v0:"+at+":"), r.Body))
}

// verifyStandard checks a request by the rules of Standard Webhooks; one matching signature of
// several suffices.
func verifyStandard(secret string, r Request) string {
	id, at, signatures := r.Headers["webhook-id"], r.Headers["webhook-timestamp"], r.Headers["webhook-signature"]
	if id == "" || at == "" || signatures == "" {
		return SignatureMissing
	}

	if reason := checkTime(at, r.At); reason != "" {
		return reason
	}

	want := mac(StandardKey(secret), []byte(id+"."+at+"."), r.Body)
	matched := 0

	for signature := range strings.FieldsSeq(signatures) {
		version, encoded, _ := strings.Cut(signature, ",")

		given, err := base64.StdEncoding.DecodeString(encoded)
		if version == "v1" && err == nil {
			matched |= subtle.ConstantTimeCompare(given, want)
		}
	}

	if matched == 0 {
		return SignatureMismatch
	}

	return ""
}

// StandardKey returns the key of a secret of Standard Webhooks: the Base64 text after whsec_,
// decoded. Another text, such as a token of GitLab, is the key itself.
func StandardKey(secret string) []byte {
	encoded, prefixed := strings.CutPrefix(secret, "whsec_")
	if key, err := base64.StdEncoding.DecodeString(encoded); prefixed && err == nil {
		return key
	}

	return []byte(secret)
}

func checkTime(seconds string, now time.Time) string {
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || now.Sub(time.Unix(unix, 0)).Abs() > ReplayWindow {
		return TimestampOutside
	}

	return ""
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}

	return h.Sum(nil)
}

func equalMACs(given string, want []byte) string {
	decoded, err := hex.DecodeString(given)
	if err != nil || !hmac.Equal(decoded, want) {
		return SignatureMismatch
	}

	return ""
}

// maxKey is the length of the longest id of a sender that is stored as it is.
const maxKey = 200

// KeyOf returns the id of a delivery: the one that the sender gave it, else a digest of its
// timestamp and body. Digests identify repeats only within the replay window: a sender without
// ids can send the same content again later.
func KeyOf(auth Auth, r Request, body any) (key string, derived bool) {
	switch auth {
	case Standard:
		key = r.Headers["webhook-id"]
	case GitHub:
		key = r.Headers["x-github-delivery"]
	case GitLab:
		key = first(r.Headers, "webhook-id", "idempotency-key", "x-gitlab-event-uuid")
	case Slack:
		key = memberText(body, "event_id")
	case Bearer:
		key = first(r.Headers, "webhook-id", "idempotency-key")
	}

	if key == "" {
		at := first(r.Headers, "webhook-timestamp", "x-slack-request-timestamp")
		return digest([]byte(at), []byte("."), r.Body), true
	}

	if len(key) > maxKey {
		key = digest([]byte(key))
	}

	return key, false
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}

	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// first returns the first header that is not empty.
func first(headers map[string]string, names ...string) string {
	for _, name := range names {
		if headers[name] != "" {
			return headers[name]
		}
	}

	return ""
}

// Challenge returns the text that Slack expects from a new address; empty: the request is an event.
func Challenge(auth Auth, body any) string {
	if auth != Slack || memberText(body, "type") != "url_verification" {
		return ""
	}

	return memberText(body, "challenge")
}
