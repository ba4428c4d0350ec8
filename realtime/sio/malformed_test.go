package sio_test

import (
	"strings"
	"testing"
	"time"
)

// frames are Engine.IO packets that no client of good will sends, or sends in
// this state. Each goes alone over both transports, before and after joining.
var frames = map[string][]string{
	"empty packet":                 {""},
	"empty message":                {"4"},
	"unknown engine type":          {"9"},
	"letter as engine type":        {"x"},
	"nul byte":                     {"\x00"},
	"open from client":             {`0{"sid":"a"}`},
	"ping from client":             {"2"},
	"ping probe in session":        {"2probe"},
	"pong":                         {"3"},
	"pong with data":               {"3" + strings.Repeat("x", 1000)},
	"upgrade without probe":        {"5"},
	"noop":                         {"6"},
	"close":                        {"1"},
	"close then event":             {"1", `42["echo",{}]`},
	"event without payload":        {"42"},
	"event id without payload":     {"421"},
	"event namespace only":         {"42/,"},
	"event namespace, no comma":    {"42/"},
	"binary event, nothing":        {"45"},
	"binary event, no attachments": {"450-"},
	"binary event, zero":           {`450-["echo",{}]`, `421["echo",{}]`},
	"binary event, one missing":    {`451-["echo",{"_placeholder":true,"num":0}]`, `421["echo",{}]`},
	"binary event, no payload":     {"451-", "bAAAA"},
	"binary event, answered":       {`451-7["echo",{"_placeholder":true,"num":0}]`, "bAAAA"},
	"binary event, 20000":          {`4520000-["echo",{}]`},
	"binary event, huge count":     {`4599999999999999999999-["echo",{}]`},
	"binary event, negative":       {`45-1-["echo",{}]`},
	"binary event, bad placeholder": {
		`451-["echo",{"_placeholder":true,"num":-5}]`, "bAAAA",
	},
	"binary ack":                 {"461-1[]", "bAAAA"},
	"binary ack, no number":      {"46-[]"},
	"binary out of place":        {"bAAAA"},
	"binary, bad base64":         {"b***"},
	"ack without a request":      {`431[{"a":1}]`},
	"ack without id":             {"43[]"},
	"ack without payload":        {"431"},
	"ack, no array":              {`431{"a":1}`},
	"ack id huge":                {`42999999999999999999999999["echo",{}]`},
	"ack id of 64 bits":          {`4218446744073709551615["echo",{}]`},
	"ack id negative":            {`42-1["echo",{}]`},
	"ack id fraction":            {`421.5["echo",{}]`},
	"ack id leading zeros":       {`420000001["echo",{}]`},
	"connect error from client":  {`44{"message":"x"}`},
	"unknown packet type":        {`47["echo",{}]`},
	"empty array":                {"42[]"},
	"name is a number":           {"42[1,{}]"},
	"name is null":               {"42[null]"},
	"name is an object":          {`42[{"a":1}]`},
	"name is an array":           {`42[["echo"]]`},
	"name is empty":              {`42["",{}]`},
	"name of 10 KB":              {`42["` + strings.Repeat("n", 10<<10) + `",{}]`},
	"name of escapes":            {`42["\u0000\ud800\u202e",{}]`},
	"name not ended":             {`42["echo`},
	"name ends in a backslash":   {`42["echo\`},
	"object instead of array":    {`42{"echo":{}}`},
	"string instead of array":    {`42"echo"`},
	"array not ended":            {`421["echo",{}`},
	"object not ended":           {`421["echo",{"a":`},
	"two values":                 {`421["echo",{}]["echo",{}]`},
	"trailing text":              {`421["echo",{}]x`},
	"no comma":                   {`421["echo"{}]`},
	"comma at the end":           {`421["echo",]`},
	"single quotes":              {`421['echo',{}]`},
	"payload is a number":        {`421["echo",1e999]`},
	"huge number":                {`421["echo",{"n":` + strings.Repeat("9", 10<<10) + `}]`},
	"huge exponent":              {`421["echo",{"n":1e99999999999}]`},
	"payload is text":            {`421["echo","text"]`},
	"payload is an array":        {`421["echo",[1,[2,[3]]]]`},
	"payload is false":           {`421["echo",false]`},
	"payload is null":            {`421["echo",null]`},
	"two payloads":               {`421["echo",{},{}]`},
	"a thousand payloads":        {`421["echo"` + strings.Repeat(",{}", 1000) + `]`},
	"nested arrays, 100000":      {`421["echo",` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `]`},
	"nested objects, 30000":      {`421["echo",` + strings.Repeat(`{"a":`, 30_000) + `1` + strings.Repeat("}", 30_000) + `]`},
	"opening brackets only":      {`421["echo",` + strings.Repeat("[", 60_000)},
	"bad UTF-8":                  {"421[\"echo\",{\"a\":\"\xff\xfe\xc0\"}]"},
	"bad UTF-8 in the name":      {"421[\"\xff\xfe\",{}]"},
	"UTF-16 halves":              {`421["echo",{"a":"\ud800"}]`},
	"control bytes":              {"421[\"echo\",{\"a\":\"\x01\x02\"}]"},
	"duplicate keys":             {`421["echo",{"a":1,"a":2,"__proto__":{}}]`},
	"reserved: connect":          {`421["connect",{}]`},
	"reserved: connect_error":    {`421["connect_error",{}]`},
	"reserved: disconnect":       {`421["disconnect","x"]`},
	"reserved: disconnecting":    {`421["disconnecting",{}]`},
	"local name: error":          {`421["error",{}]`},
	"local name: newListener":    {`421["newListener",{}]`},
	"unknown event":              {`421["nonsense",{}]`},
	"handler that panics":        {`421["panic",{}]`},
	"answer that is no JSON":     {`421["unjson",{}]`},
	"unknown namespace, event":   {`42/admin,["echo",{}]`},
	"unknown namespace, connect": {`40/admin,{"token":"good"}`},
	"namespace of 20 KB":         {"40/" + strings.Repeat("n", 20<<10) + ","},
	"namespace of bad UTF-8":     {"40/\xff\xfe,{}"},
	"namespace with a query":     {`40/?token=good,{}`},
	"many namespaces":            repeat(`40/n,{}`, 50),
	"many connects":              repeat(`40{"token":"good"}`, 50),
	"many wrong tokens":          repeat(`40{"token":"wrong"}`, 50),
	"connect without token":      {"40"},
	"connect with null":          {"40null"},
	"connect with an array":      {"40[1]"},
	"connect with text":          {`40"good"`},
	"connect with bad JSON":      {`40{"token":`},
	"connect, token is a number": {`40{"token":1}`},
	"connect, token is huge":     {`40{"token":"` + strings.Repeat("t", 60<<10) + `"}`},
	"connect over 64 KB":         {`40{"token":"` + strings.Repeat("t", 70<<10) + `"}`},
	"connect, deep auth":         {`40{"token":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`},
	"connect, a handler panics":  {`40{"token":"panic"}`},
	"event before the answer":    {`40{"token":"good"}`, `421["echo",{}]`},
	"disconnect":                 {"41"},
	"disconnect twice":           {"41", "41"},
	"disconnect, then connect":   {"41", `40{"token":"good"}`},
	"disconnect, then event":     {"41", `421["echo",{}]`},
	"disconnect with payload":    {`41{"a":1}`},
	"disconnect elsewhere":       {"41/admin,"},
	"2000 pongs":                 repeat("3", 2000),
	"2000 noops":                 repeat("6", 2000),
	"2000 empty messages":        repeat("4", 2000),
	"2000 unknown events":        repeat(`42["nonsense",{}]`, 2000),
}

func repeat(packet string, times int) []string {
	all := make([]string, times)
	for i := range all {
		all[i] = packet
	}

	return all
}

// TestMalformedFrames sends each of the frames to a server in a process of its
// own, which must survive, while a well-behaved client must not notice.
func TestMalformedFrames(t *testing.T) {
	server := startChild(t)
	watcher := startWitness(t, server.addr)

	for name, packets := range frames {
		for _, transport := range bothTransports {
			for _, joined := range []bool{false, true} {
				state := "before joining"
				if joined {
					state = "after joining"
				}

				t.Run(name+"/"+transport+"/"+state, func(t *testing.T) {
					attack(t, server.addr, transport, joined, packets)
					survived(t, server)
				})
			}
		}

		if !server.alive() {
			t.Fatalf("the server died of %q:\n%s", name, server.log())
		}

		watcher.goesOn(t)
	}
	// One panic a transport of the handler and the authenticator, before and after joining where that applies.
	if last := server.finish(t); last != "panics 4" {
		t.Errorf("only the handlers that are meant to panic may: %s\n%s", last, server.log())
	}
}

// attack sends packets, whatever the server thinks of them, and reads what
// comes back for a moment. A panic is waited for: it is counted in the end.
func attack(t *testing.T, addr, transport string, joined bool, packets []string) {
	t.Helper()

	open := dial
	if joined {
		open = join
	}

	c, err := open(addr, transport)
	if err != nil {
		t.Fatalf("no session: %v", err)
	}
	defer c.close()

	if poll, ok := c.(*pollClient); ok {
		_ = poll.send(strings.Join(packets, "\x1e"))
	} else {
		for _, packet := range packets {
			if c.send(packet) != nil {
				break // closed, which is an answer too
			}
		}
	}

	if strings.Contains(packets[0], `"panic"`) {
		_, _ = await(c, "4", patience)
		return
	}

	_, _ = c.receive(30 * time.Millisecond)
}

func survived(t *testing.T, server *child) {
	t.Helper()

	if !server.alive() {
		t.Fatalf("the server died:\n%s", server.log())
	}
}
