package wordlist

import "regexp"

// rule is a word or phrase that the glossary and the language rules replace.
type rule struct {
	pattern string // matched as whole words, in lower case, after identifiers are split
	use     string
}

// rules lists what sources and pages do not say. docs/glossary.md gives the terms.
var rules = []rule{
	{`desks?`, "service"},
	{`doors?`, "edge"},
	{`janitors?`, "reconciler"},
	{`sweep(s|er|ers|ing)?|swept`, "periodic job"},
	{`purgers?`, "session deleter"},
	{`turnstiles?`, "publish queue, ticket"},
	{`misfits?`, "outcome, mismatch"},
	{`(in|into|from|fit for) the records|the records (know|take|keep|hold|say|have|decide|refuse)`, "store, database"},
	{`enquir(y|ies)`, "request, query"},
	{`oracles?`, "fakeX, model"},

	{`tells?|told|telling`, "report, emit, return, say, show, send, distinguish"},
	{`(nobody|somebody|no one|everybody)s?`, "name the caller, user, client, worker, process"},
	{`whoever`, "the caller that, a process that"},
	{`he|him|his|himself|she|hers|herself`, "they, the caller, the client"},
	{`strangers?`, "untrusted; name the user or client"},
	{`hands`, "passes, gives, submits"},

	{`mend(s|ed|ing)?`, "fix, repair, retry"},
	{`heed(s|ed|ing)?`, "obey, drain, read"},
	{`nudge[sd]?`, "notify, signal"},
	{`insist(s|ed)?`, "retry, require"},
	{`patiently`, "with retries"},
	{`quietly`, "asynchronously, without logging"},
	{`hurry up`, "flush"},
	{`goodbye`, "close"},
	{`anew`, "again, re-"},
	{`for ever`, "without end, permanently"},
	{`forsaken`, "abandoned"},
	{`asleep`, "stalled, idle"},
	{`unheard`, "undelivered"},
	{`rivals?`, "competitor"},

	{`sees? to|saw to|seen to|seeing to`, "ensure, handle"},
	{`lets? in|letting in|lets? people in`, "admit, accept, authorise"},
	{`lets? go|letting go`, "release, close, discard"},
	{`(gives?|gave|given|giving) back`, "return, restore, release"},
	{`com(es|e|ing) to nothing`, "fail"},
	{`comes? of it`, "result"},
	{`signs? of life`, "heartbeat, activity"},
	{`(takes?|taken|took) up again`, "resume"},
	{`(makes?|made) good`, "retry, repair"},
	{`makes? sense`, "valid"},
	{`in good order`, "normally, by cancellation"},
	{`in one place each`, "once each"},
	{`it is that one`, "name it"},
	{`as it stands`, "as is, unchanged"},
	{`held to`, "checked against, follows"},
	{`for want of`, "without, lack of"},
}

var matcher = func() *regexp.Regexp {
	all := ""

	for i, r := range rules {
		if i > 0 {
			all += "|"
		}

		all += r.pattern
	}

	return regexp.MustCompile(`\b(?:` + all + `)\b`)
}()

// allowance is a use that stays, with its reason.
type allowance struct {
	path   string // the beginning of the file's path; "" for every file
	phrase string // what the line contains, in lower case; the whole line is allowed
	reason string
}

var allowed = []allowance{
	{"domain/trigger/trigger_test.go", "it's a secret to everybody", "the example of GitHub's documentation"},
	{"docs/glossary.md", "", "names the words that are replaced"},
	{"internal/wordlist/", "", "names the words that are replaced"},

	{"", "everloop_janitor_findings_total", "the name of a metric"},

	{"infra/postgres/migrations/", "told_comments", "a column"},
	{"service/board/", "told_comments", "a column"},

	{"infra/embedded/", "nobody", "the user nobody of Unix"},
	{"infra/external/", "lookup(\"nobody\")", "the user nobody of Unix"},
	{"terminal/doctor/database.go", "nobody", "the user nobody of Unix"},
	{"infra/sandbox/namespaces.go", "nobody:x:65534", "the user nobody of Unix"},
}
