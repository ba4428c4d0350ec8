// Package totp creates and checks the codes of authenticator apps (RFC 6238: six digits, 30
// seconds, SHA-1, as every app supports) and recovery codes. It must not depend on users, nor
// on where secrets are stored.
package totp

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"image/color"
	"strings"
	"time"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
)

const (
	period = 30 // seconds of a step
	skew   = 1  // tolerated steps of clock skew

	recoveryCodes  = 10
	recoveryLength = 16 // characters of base 32, thus 80 bits
)

// Key is the shared secret of an app.
type Key struct {
	Secret string // base 32
	URL    string // otpauth://…, which apps read from a QR code
}

// New returns a new key for an account.
func New(issuer, account string) (Key, error) {
	// A colon separates issuer and account in the URL.
	clean := strings.NewReplacer(":", " ", "/", " ")

	key, err := totp.Generate(totp.GenerateOpts{Issuer: clean.Replace(issuer), AccountName: clean.Replace(account)})
	if err != nil {
		return Key{}, err
	}

	return Key{Secret: key.Secret(), URL: key.URL()}, nil
}

// SVG returns the QR code of the key's URL, black on white with the margin that scanners need.
func (k Key) SVG() (string, error) {
	const margin = 4

	code, err := qr.Encode(k.URL, qr.M, qr.Auto)
	if err != nil {
		return "", err
	}

	size := code.Bounds().Dx()

	var path strings.Builder

	for y := range size {
		for x := range size {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+margin, y+margin)
			}
		}
	}

	whole := size + 2*margin

	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="220" height="220" `+
		`role="img" aria-label="QR code">`+
		`<path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="%s"/></svg>`, whole, whole, whole, whole, path.String()), nil
}

// Step returns the time step of a code: the current one or a neighbour, to tolerate clock skew.
// The caller must store the step of an accepted code, and reject codes with that or an older
// step.
func Step(secret, code string, now time.Time) (step int64, held bool) {
	at := now.Unix() / period

	for candidate := at - skew; candidate <= at+skew; candidate++ {
		right, err := hotp.GenerateCodeCustom(secret, uint64(max(0, candidate)), hotp.ValidateOpts{
			Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1,
		})
		if err == nil && subtle.ConstantTimeCompare([]byte(right), []byte(code)) == 1 {
			step, held = candidate, true
		}
	}

	return step, held
}

// RecoveryCodes returns new codes that each replace one code of the app.
func RecoveryCodes() []string {
	codes := make([]string, recoveryCodes)
	for i := range codes {
		text := rand.Text()[:recoveryLength]
		codes[i] = strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:]}, "-")
	}

	return codes
}

// Normal returns a typed code without separators.
func Normal(code string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
}

// IsRecovery reports whether a normalised code has the form of a recovery code.
func IsRecovery(code string) bool { return len(code) == recoveryLength }
