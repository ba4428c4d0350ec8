package sio

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestParseEvent(t *testing.T) {
	deep := strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2)
	for packet, want := range map[string]struct {
		name, payload, fault string
	}{
		`2["a"]`:                          {name: "a"},
		`2["a",null]`:                     {name: "a"},
		`2["a",{}]`:                       {name: "a", payload: `{}`},
		`27["a", {"x":[1,"],\""]} ]`:      {name: "a", payload: `{"x":[1,"],\""]}`},
		` 2["a"]`:                         {fault: "error"},
		`2 ["a" , {} ] `:                  {name: "a", payload: `{}`},
		`2/,["a",{}]`:                     {name: "a", payload: `{}`},
		`2["\u0061",{}]`:                  {name: "a", payload: `{}`},
		`2["a",{},{}]`:                    {name: "a", fault: FaultArguments},
		`2["a",[]]`:                       {name: "a", fault: FaultNotObject},
		`2["a","{}"]`:                     {name: "a", fault: FaultNotObject},
		`2["disconnect",{}]`:              {name: "disconnect", fault: FaultReserved},
		`2["",{}]`:                        {fault: FaultEventName},
		`51-["a",{}]`:                     {name: "a", fault: FaultBinary},
		`50-["a"]`:                        {name: "a", fault: FaultBinary},
		`2["a",{"x":` + deep + `}]`:       {name: "a", payload: `{"x":` + deep + `}`},
		`2["a",{"x":[` + deep + `]}]`:     {name: "a", fault: FaultTooDeep},
		`2["a",{"x":"` + longText + `"}]`: {name: "a", fault: FaultTooLarge},
		`2["a",{"x":"` + longText:         {name: "a", fault: FaultTooLarge},
		`2["` + longText + `"]`:           {fault: FaultTooLarge},
		`2["` + longText[:2000] + `",{}]`: {fault: FaultEventName},
		`2["a",{}`:                        {name: "a", fault: "error"},
		`2["a"{}]`:                        {name: "a", fault: "error"},
		"2[\"a\",{\"x\":\"\xff\"}]":       {name: "a", fault: "error"},
		`2`:                               {fault: "error"},
		`29`:                              {fault: "error"},
		`2[]`:                             {fault: "error"},
		`2[1]`:                            {fault: "error"},
		`2["a`:                            {fault: "error"},
		`2["a\`:                           {fault: "error"},
		`517-["a"]`:                       {fault: "error"},
		`5-["a"]`:                         {fault: "error"},
		`5`:                               {fault: "error"},
		`9["a"]`:                          {fault: "error"},
		`2184467440737095516150["a"]`:     {fault: "error"},
		`2/` + strings.Repeat("n", 300):   {fault: "error"},
		`2/` + strings.Repeat("n", 300) + `,["a"]`: {fault: "error"},
	} {
		h, body, err := parseHead([]byte(packet))

		var ev event
		if err == nil {
			ev, err = parseEvent(h, body, 4000)
		}

		if want.fault == "error" {
			require.Error(t, err, packet)
			continue
		}

		require.NoError(t, err, packet)
		require.Equal(t, want.name, ev.name, packet)
		require.Equal(t, want.payload, string(ev.payload), packet)

		if want.fault == "" {
			require.Nil(t, ev.fault, packet)
		} else {
			require.Equal(t, want.fault, ev.fault.Code, packet)
			require.NotEmpty(t, ev.fault.Message)
		}
	}
}

var longText = strings.Repeat("x", 5000)

func TestParseHead(t *testing.T) {
	h, rest, err := parseHead([]byte(`516-/admin,12["x"]`))
	require.NoError(t, err)
	require.Equal(t, head{kind: typeBinaryEvent, attachments: 16, namespace: "/admin", hasID: true, id: 12}, h)
	require.Equal(t, `["x"]`, string(rest))
	h, rest, err = parseHead([]byte(`2/admin`))
	require.NoError(t, err)
	require.Equal(t, "/admin", h.namespace)
	require.Empty(t, rest)

	h, _, err = parseHead([]byte(`218446744073709551615[]`))
	require.NoError(t, err)
	require.EqualValues(t, uint64(18446744073709551615), h.id)
}

func TestParseToken(t *testing.T) {
	for body, want := range map[string]string{"": "", "{}": "", `{"token":"t"}`: "t", `{"token":1}`: "", `{"token":null,"a":[]}`: ""} {
		got, err := parseToken([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}

	for _, body := range []string{"null", "[]", `"t"`, "{", `{"token":"t"}x`, strings.Repeat("[", 500), `{"token":"` + "\xff" + `"}`} {
		_, err := parseToken([]byte(body))
		require.Error(t, err, body)
	}
}

// FuzzPacket checks that no packet panics the parser and that whatever is
// accepted is what encoding/json makes of it.
func FuzzPacket(f *testing.F) {
	for _, seed := range []string{
		`2["a",{"b":1}]`, `27["a"]`, `51-["a",{}]`, `40{"token":"x"}`, `2/n,1["a",{},{}]`, `2["\u0000",{"a":["]"]}]`, `42`, `2["a\`,
	} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		h, body, err := parseHead(data)
		if err != nil {
			return
		}

		_, _ = parseToken(body)

		if h.kind != typeEvent {
			return
		}

		ev, err := parseEvent(h, bytes.Clone(body), 1000)
		if err != nil || ev.fault != nil {
			return
		}

		var args []json.RawMessage
		if json.Unmarshal(body, &args) != nil {
			t.Fatalf("accepted %q", body)
		}

		var name string
		if json.Unmarshal(args[0], &name) != nil || name != ev.name || !utf8.Valid(ev.payload) {
			t.Fatalf("name %q of %q", ev.name, body)
		}

		switch {
		case ev.payload == nil && (len(args) == 1 || string(args[1]) == "null"):
		case len(args) == 2 && string(args[1]) == string(ev.payload):
		default:
			t.Fatalf("payload %q of %q", ev.payload, body)
		}
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.init(10)

		open := make(chan struct{})
		spendBurst := func() {
			began := time.Now()

			for range 10 * burstSeconds {
				require.True(t, p.wait(open))
			}

			require.Zero(t, time.Since(began), "a burst waits for nothing")
		}
		spendBurst()

		began := time.Now()

		require.True(t, p.wait(open))
		require.Equal(t, 100*time.Millisecond, time.Since(began), "then ten a second")

		time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock
		spendBurst()

		closed := make(chan struct{})
		close(closed)

		began = time.Now()

		require.False(t, p.wait(closed), "a closed connection waits for nothing")
		require.Zero(t, time.Since(began))
	})
}

func TestInboxIsBounded(t *testing.T) {
	done := make(chan struct{})

	b := newInbox(done)
	for range inboxEvents {
		require.True(t, b.put(event{size: 10}))
	}

	require.False(t, b.tryPut(event{}))

	put := make(chan bool)
	go func() { put <- b.put(event{name: "last"}) }()

	_, ok := b.take()
	require.True(t, ok)
	require.True(t, <-put)

	large := newInbox(done)
	require.True(t, large.put(event{size: 2 * inboxBytes}), "one event always fits")

	require.False(t, large.tryPut(event{size: 1}))
	go func() { put <- large.put(event{size: 1}) }()

	close(done)
	require.False(t, <-put, "a closed connection takes no more")
}
