package safezip

import "fmt"

// Reason is the class of a refusal.
type Reason string

// All reasons.
const (
	NotAnArchive   Reason = "not_a_zip"          // or a damaged archive
	TooLarge       Reason = "zip_too_large"      // the archive itself
	TooManyFiles   Reason = "zip_too_many_files" //
	Expands        Reason = "zip_expands"        // uncompressed size or compression ratio too large
	UnsafeName     Reason = "zip_unsafe_name"    // absolute, with "..", or not a plain name
	NotRegular     Reason = "zip_not_regular"    // a link, a device or a similar member
	NameTwice      Reason = "zip_name_twice"     // two members with one name
	CannotUnpack   Reason = "zip_cannot_unpack"  // encrypted, or an unknown method
	ContentDamaged Reason = "zip_damaged"        // detected while a file is read
)

// Error is a refusal. Its text can be shown to the sender of the archive.
type Error struct {
	Reason Reason
	Name   string // of the member, shortened; empty: the whole archive
	Text   string
	Err    error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Err }

func refuse(reason Reason, name, format string, args ...any) *Error {
	e := &Error{Reason: reason, Name: shown(name), Text: fmt.Sprintf(format, args...)}
	if name != "" {
		e.Text = fmt.Sprintf("%q %s", e.Name, e.Text)
	}

	return e
}

// shown shortens a name for messages.
func shown(name string) string {
	const most = 120
	if len(name) > most {
		return name[:most] + "…"
	}

	return name
}
