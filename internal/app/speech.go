package app

import (
	"errors"
	"time"

	"everloop/api/system"
	"everloop/infra/model"
	"everloop/internal/app/flags"
)

// speechSettings say which model transcribes recordings, and where it is.
type speechSettings struct {
	ASRModel    string `name:"asr-model" env:"ASR_MODEL" help:"Model for speech; recordings are transcribed when it is set."`
	ASRProvider string `name:"asr-provider" default:"gateway" env:"ASR_PROVIDER" help:"Name of the speech-recognition provider, for front ends."`
	ASRURL      string `name:"asr-url" env:"ASR_URL" help:"Base URL of the server of the speech model, without /v1; LLM_GATEWAY_URL when unset."`
	ASRKey      string `name:"asr-key" env:"ASR_KEY" help:"Key of the server of ASR_URL."`
}

// Bounds of transcriptions.
const (
	recordingTime  = 2 * time.Minute // of one recording
	maxRecording   = 25 << 20        // bytes: what the servers of speech models accept
	maxTranscribed = 4               // recordings that one process has transcribed concurrently
)

func (s speechSettings) check() error {
	var faults []error
	if s.ASRKey != "" && s.ASRURL == "" {
		faults = append(faults, errors.New("ASR_KEY is the key of the server of ASR_URL, which is not set"))
	}

	return errors.Join(append(faults, flags.CheckURL("ASR_URL", s.ASRURL))...)
}

// newSpeech returns the speech model; nil: none is configured.
func (b *backend) newSpeech() *model.Speech {
	s := b.settings
	if s.ASRModel == "" {
		return nil
	}

	client := b.models
	if s.ASRURL != "" {
		client = model.New(model.Config{BaseURL: s.ASRURL, Key: s.ASRKey, Prices: b.prices})
	}

	return model.NewSpeech(model.SpeechConfig{
		Client: client, Model: s.ASRModel, Timeout: recordingTime, MaxBytes: maxRecording, MaxConcurrent: maxTranscribed,
	})
}

// speechPort returns the speech model as the API takes it; nil: none is configured.
func (b *backend) speechPort() system.Speech {
	if b.speech == nil {
		return nil
	}

	return b.speech
}

// recordingBytes returns the size of the largest recording of a message; 0: none is accepted.
func (b *backend) recordingBytes() int {
	if b.speech == nil {
		return 0
	}

	return b.speech.MaxBytes()
}
