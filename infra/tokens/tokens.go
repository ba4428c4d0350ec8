// Package tokens counts the tokens of texts. It is exact where the tokenizer of
// a model is known and its vocabulary is at hand; for all other models it
// estimates, corrected by what their servers have reported. It knows texts and
// names of models, and nothing of conversations.
package tokens

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tiktoken-go/tokenizer"
)

// Ratios keeps what was learnt about models beyond the life of a process, and
// shares it between processes. A nil Ratios keeps nothing.
type Ratios interface {
	TokenRatios(ctx context.Context) (map[string]float64, error)
	KeepTokenRatio(ctx context.Context, model string, ratio float64) error
}

// Counter counts tokens. It is safe for concurrent use.
type Counter struct {
	store  Ratios
	logger *slog.Logger

	mu     sync.Mutex
	ratios map[string]learnt
	read   time.Time // when the kept ratios were read
}

// learnt is how many tokens of a model one estimated token stands for.
type learnt struct {
	ratio float64
	at    time.Time // when it was observed in this process
	kept  float64   // what the store holds
}

// New returns a new counter; the store and the logger may be nil.
func New(store Ratios, logger *slog.Logger) *Counter {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}

	return &Counter{store: store, logger: logger, ratios: map[string]learnt{}}
}

// Bounds of what is learnt. A server that reports something else counts
// differently from what anybody could mean.
const (
	minRatio    = 0.2
	maxRatio    = 5
	weight      = 0.3 // of a new observation
	minObserved = 50  // estimated tokens below which a prompt says nothing

	readEvery = 30 * time.Second
	keptAgain = 0.03 // relative change that is worth keeping
	storeTime = 5 * time.Second
)

// EstimateTokenizer is the name of what counts where no tokenizer is known.
const EstimateTokenizer = "estimate"

// Tokenizer names what counts the model's tokens, and whether it is the model's
// own.
func (c *Counter) Tokenizer(model string) (name string, exact bool) {
	if encoding, known := encodingOf(model); known {
		return string(encoding), true
	}

	return EstimateTokenizer, false
}

// Count gives the tokens of a text for a model. A text over MaxExact is
// estimated whatever the model.
func (c *Counter) Count(model, text string) int {
	if n, exact := c.exactly(model, text); exact {
		return n
	}

	return c.scaled(model, Estimate(text))
}

// Encode is Count with the first most token ids, and whether it is exact.
func (c *Counter) Encode(model, text string, most int) (count int, exact bool, ids []uint) {
	if !c.Exact(model, len(text)) {
		return c.Count(model, text), false, nil
	}

	codec := codecOf(model)
	if codec == nil {
		return c.scaled(model, Estimate(text)), false, nil
	}

	all, _, err := codec.Encode(text)
	if err != nil {
		return c.scaled(model, Estimate(text)), false, nil
	}

	return len(all), true, all[:min(most, len(all))]
}

// Approximate estimates whatever the model: quick for texts of any size.
func (c *Counter) Approximate(model, text string) int { return c.scaled(model, Estimate(text)) }

// Exact reports whether texts of so many bytes are counted exactly for a model.
func (c *Counter) Exact(model string, bytes int) bool {
	_, known := encodingOf(model)
	return known && bytes <= MaxExact
}

// MaxExact bounds what is counted exactly, in bytes: a megabyte takes some 0.4 s.
const MaxExact = 1 << 20

func (c *Counter) exactly(model, text string) (int, bool) {
	if len(text) > MaxExact {
		return 0, false
	}

	codec := codecOf(model)
	if codec == nil {
		return 0, false
	}

	n, err := codec.Count(text)

	return n, err == nil
}

// scaled corrects an estimate by what the model's server has reported. Models
// whose tokenizer is known need none: for them only giant texts are estimated.
func (c *Counter) scaled(model string, estimated int) int {
	return int(math.Ceil(float64(estimated) * c.ratio(model)))
}

func (c *Counter) ratio(model string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.store != nil && time.Since(c.read) > readEvery {
		c.read = time.Now()
		go c.readKept()
	}

	if known, ok := c.ratios[model]; ok {
		return known.ratio
	}

	return 1
}

// Load reads what was learnt before; without it the first counts of a process
// are uncorrected.
func (c *Counter) Load() { c.readKept() }

// readKept takes over what other processes have learnt, but for models that this
// one has seen itself of late.
func (c *Counter) readKept() {
	if c.store == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()

	kept, err := c.store.TokenRatios(ctx)
	if err != nil {
		c.logger.Warn("failed to read token ratios, counts are less exact", "error", err)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.read = time.Now()
	for model, ratio := range kept {
		if time.Since(c.ratios[model].at) > readEvery {
			c.ratios[model] = learnt{ratio: ratio, kept: ratio}
		}
	}
}

// Due reports whether an observation of the model would teach anything now: one
// costs an estimate of a whole prompt.
func (c *Counter) Due(model string) bool {
	if _, known := encodingOf(model); known {
		return false
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	return time.Since(c.ratios[model].at) > readEvery
}

// Observe learns from a prompt: how many tokens Estimate says it has, and how
// many its server has reported.
func (c *Counter) Observe(model string, estimated int, reported int64) {
	if estimated < minObserved || reported <= 0 {
		return
	}

	seen := min(max(float64(reported)/float64(estimated), minRatio), maxRatio)

	c.mu.Lock()

	known, before := c.ratios[model]
	if before {
		seen = known.ratio*(1-weight) + seen*weight
	}

	known.ratio, known.at = seen, time.Now()

	keep := c.store != nil && math.Abs(seen-known.kept) > keptAgain*seen
	if keep {
		known.kept = seen
	}

	c.ratios[model] = known
	c.mu.Unlock()

	if keep {
		go c.keep(model, seen)
	}
}

func (c *Counter) keep(model string, ratio float64) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()

	if err := c.store.KeepTokenRatio(ctx, model, ratio); err != nil {
		c.logger.Warn("failed to store a token ratio", "model", model, "error", err)
	}
}

// encodings are the tokenizers of models that are known, by the beginning of
// their name. The first that fits counts.
var encodings = []struct {
	prefix   string
	encoding tokenizer.Encoding
}{
	{"gpt-4o", tokenizer.O200kBase},
	{"chatgpt-4o", tokenizer.O200kBase},
	{"gpt-4.1", tokenizer.O200kBase},
	{"gpt-4.5", tokenizer.O200kBase},
	{"gpt-5", tokenizer.O200kBase},
	{"gpt-oss", tokenizer.O200kBase},
	{"o1", tokenizer.O200kBase},
	{"o3", tokenizer.O200kBase},
	{"o4", tokenizer.O200kBase},
	{"gpt-4", tokenizer.Cl100kBase},
	{"gpt-3.5", tokenizer.Cl100kBase},
	{"gpt-35", tokenizer.Cl100kBase},
	{"text-embedding-3", tokenizer.Cl100kBase},
	{"text-embedding-ada-002", tokenizer.Cl100kBase},
}

// encodingOf finds the tokenizer of a model by its name, with or without the
// name of who serves it before it ("openai/gpt-4o").
func encodingOf(model string) (tokenizer.Encoding, bool) {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, e := range encodings {
		rest, fits := strings.CutPrefix(name, e.prefix)
		// "o1" is a model, "o1ive" is none.
		if fits && (rest == "" || strings.ContainsRune("-:@.", rune(rest[0]))) {
			return e.encoding, true
		}
	}

	return "", false
}

// codecs are made when they are first needed: each takes 0.1 s and 6 MB.
var codecs = map[tokenizer.Encoding]func() (tokenizer.Codec, error){
	tokenizer.O200kBase:  sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) }),
	tokenizer.Cl100kBase: sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Cl100kBase) }),
}

// codecOf gives the tokenizer of a model, nil when it is not known.
func codecOf(model string) tokenizer.Codec {
	encoding, known := encodingOf(model)
	if !known {
		return nil
	}

	codec, err := codecs[encoding]()
	if err != nil {
		return nil
	}

	return codec
}
