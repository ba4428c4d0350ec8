package objects

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"everloop/domain"
	"everloop/domain/speech"
)

// Keep stores the picture of a data URL and returns the reference for messages. Other URLs are
// rejected: web addresses must be fetched before.
func (s *Store) Keep(ctx context.Context, sessionID domain.SessionID, address string) (string, error) {
	if owner, name, ok := domain.ParseAttachmentPath(address); ok {
		return s.kept(ctx, sessionID, string(owner), name, badImage, "image/")
	}

	if !strings.HasPrefix(address, "data:") {
		return "", badImage("it is not a data URL")
	}

	mime, data, err := decodeDataURL(address, badImage)
	if err != nil {
		return "", err
	}

	if !slices.Contains(domain.ImageTypes, mime) || http.DetectContentType(data) != mime {
		return "", badImage("it is not a PNG, JPEG, GIF or WebP picture of the type that it names")
	}

	return s.keepAttachment(ctx, sessionID, mime, data)
}

// KeepAudio is Keep for a recording of at most most bytes. It detects the format from the
// content.
func (s *Store) KeepAudio(ctx context.Context, sessionID domain.SessionID, address string, most int) (string, error) {
	if owner, name, ok := domain.ParseAttachmentPath(address); ok {
		return s.kept(ctx, sessionID, string(owner), name, badAudio, "audio/")
	}

	_, data, err := decodeDataURL(address, badAudio)
	if err != nil {
		return "", err
	}

	if len(data) > most {
		return "", domain.Newf(domain.TooLarge, "audio_too_large", "a recording has %d bytes, and the limit is %d", len(data), most)
	}

	format, known := speech.FindAudioFormat(data)
	if !known {
		return "", badAudio("it is not " + speech.AudioFormatNames)
	}

	return s.keepAttachment(ctx, sessionID, format.MIME, data)
}

// Recording returns a stored recording.
func (s *Store) Recording(ctx context.Context, key string) (speech.Recording, error) {
	data, mime, err := s.get(ctx, key)
	if err != nil {
		return speech.Recording{}, err
	}

	format, known := speech.AudioFormatOf(mime)
	if !known {
		return speech.Recording{}, badAudio("it is not " + speech.AudioFormatNames)
	}

	return speech.Recording{Data: data, Format: format}, nil
}

// KeepImage stores an image of a tool's result. The caller has checked type and size.
func (s *Store) KeepImage(ctx context.Context, sessionID domain.SessionID, mime string, data []byte) (domain.CallImage, error) {
	object, err := s.keepAttachment(ctx, sessionID, mime, data)
	if err != nil {
		return domain.CallImage{}, err
	}

	return domain.CallImage{Attachment: path.Base(object), MimeType: mime, Bytes: int64(len(data))}, nil
}

func (s *Store) keepAttachment(ctx context.Context, sessionID domain.SessionID, mime string, data []byte) (string, error) {
	if err := domain.DiskFull(s.room); err != nil {
		return "", err
	}

	sum := sha256.Sum256(data)

	key := imagePrefix(sessionID) + hex.EncodeToString(sum[:])
	if err := s.put(ctx, key, mime, data); err != nil {
		return "", err
	}

	return domain.ObjectScheme + key, nil
}

func decodeDataURL(address string, bad func(string) error) (mime string, data []byte, err error) {
	head, encoded, found := strings.Cut(strings.TrimPrefix(address, "data:"), ",")

	mime, isBase64 := strings.CutSuffix(head, ";base64")
	if !found || !isBase64 {
		return "", nil, bad("a data URL must hold base64")
	}

	if data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
		return "", nil, bad("its base64 cannot be decoded")
	}

	return mime, data, nil
}

// kept returns the object of an attachment that an earlier message of the same session contains,
// such as a rewound message that is sent again.
func (s *Store) kept(
	ctx context.Context,
	sessionID domain.SessionID,
	owner, name string,
	bad func(string) error,
	kind string,
) (string, error) {
	if owner != string(sessionID) {
		return "", bad("it is an attachment of another session")
	}

	key := imagePrefix(sessionID) + name

	found, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		if err = readFault(err); domain.HasCode(err, "object_not_found") {
			err = bad("this session has no such attachment")
		}

		return "", err
	}

	if !strings.HasPrefix(found.ContentType, kind) {
		return "", bad("the attachment is of another type")
	}

	return domain.ObjectScheme + key, nil
}

func badImage(why string) error {
	return domain.Invalidf("body.message.image_url", "the picture cannot be used: %s", why)
}

func badAudio(why string) error {
	err := domain.Invalidf("body.message.audio_url", "the recording cannot be used: %s", why)
	err.Code = speech.CodeInvalidAudio

	return err
}

// imagePrefix returns the prefix of the pictures and recordings of a session's messages.
func imagePrefix(sessionID domain.SessionID) string {
	return "images/" + string(sessionID) + "/"
}

// DataURL returns a stored picture as a data URL.
func (s *Store) DataURL(ctx context.Context, key string) (string, error) {
	data, mime, err := s.get(ctx, key)
	if err != nil {
		return "", err
	}

	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}

// Image returns a picture of a session's messages by the last part of its reference.
func (s *Store) Image(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error) {
	return s.get(ctx, imagePrefix(sessionID)+path.Base(name))
}
