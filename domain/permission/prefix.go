package permission

import (
	"path"
	"slices"
	"strings"
)

// prefix describes a program that runs its further words as a command.
type prefix struct {
	values   string // short options that take a value
	operands int    // words before the command
	assigns  bool   // NAME=value before the command
	appends  bool   // the program appends words to the command
}

// prefixes are programs with known options.
var prefixes = map[string]prefix{
	"builtin": {}, "busybox": {}, "chroot": {operands: 1}, "command": {}, "doas": {values: "uC"},
	"env": {values: "uCa", assigns: true}, "exec": {values: "a"}, "ionice": {values: "cnpPu"}, "nice": {values: "n"},
	"nohup": {}, "setsid": {}, "stdbuf": {values: "ioe"}, "sudo": {values: "ugpCcDhrRtTU", assigns: true}, "time": {values: "fo"},
	"timeout": {values: "ks", operands: 1}, "toybox": {}, "xargs": {values: "adEIiLlnPs", appends: true}, "catchsegv": {},
}

// openPrefixes are programs that run a command after options that are not listed here: any of
// their words can start it.
var openPrefixes = []string{
	"chrt", "flock", "firejail", "ltrace", "nsenter", "parallel", "prlimit", "runuser", "setarch", "linux64", "linux32", "setpriv",
	"strace", "systemd-run", "taskset", "unshare", "bwrap", "pkexec", "script", "su", "sg", "unbuffer", "faketime", "dbus-run-session",
	"xvfb-run", "gdb", "perf", "valgrind", "entr", "rlwrap", "proot", "fakeroot", "cgexec", "numactl", "start-stop-daemon", "watch",
	"coproc", "chpst", "softlimit", "s6-setuidgid", "gosu", "su-exec", "tini", "dumb-init", "daemonize", "trickle", "torsocks",
	"proxychains", "proxychains4", "arch", "uname26", "i386", "x86_64", "hyperfine", "winpty",
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"}

// addInner adds the commands that a command runs.
func (c *commands) addInner(call simpleCall, depth int) {
	words := call.words
	name := path.Base(words[0].text)

	switch {
	case slices.Contains(shells, name):
		c.addShell(call, depth)
	case name == "eval":
		c.addEvaluated(words[1:], depth)
	case name == "trap" && len(words) > 1:
		c.addEvaluated(words[1:2], depth)
	case name == "alias":
		for _, w := range words[1:] {
			if _, value, ok := strings.Cut(w.text, "="); ok {
				c.addEvaluated([]word{{value, value}}, depth)
			}
		}
	case name == "find":
		c.addFound(call, depth)
	case slices.Contains(openPrefixes, name):
		c.addSuffixes(call, depth)
	default:
		if p, ok := prefixes[name]; ok {
			c.addPrefixed(call, p, depth)
		}
	}
}

// addEvaluated adds words that the shell reads as a script.
func (c *commands) addEvaluated(words []word, depth int) {
	script := join(textOf, words)
	if strings.ContainsRune(script, unknown) {
		c.addUnknown(join(sourceOf, words))
		return
	}

	c.addScript(script, depth)
}

// addShell adds the script of a shell: an argument, a here-document, or unknown input. A
// script in a file is not read.
func (c *commands) addShell(call simpleCall, depth int) {
	words := call.words[1:]

	for i := 0; i < len(words); i++ {
		option := words[i].text

		switch {
		case option == "--version" || option == "--help":
			return
		case strings.HasPrefix(option, "--"):
			if option == "--rcfile" || option == "--init-file" {
				i++
			}
		case strings.HasPrefix(option, "-") && len(option) > 1 && strings.ContainsRune(option, 'c'):
			c.addOperand(words[i+1:], depth)
			return
		case strings.HasPrefix(option, "-") && strings.ContainsRune(option, 's'):
			c.addFed(call, depth)
			return
		case (strings.HasPrefix(option, "-") || strings.HasPrefix(option, "+")) && len(option) > 1:
			if strings.HasSuffix(option, "o") || strings.HasSuffix(option, "O") {
				i++
			}
		case strings.ContainsRune(option, unknown):
			c.addUnknown(call.source())
			return
		case option != "-":
			return // a script in a file
		}
	}

	c.addFed(call, depth)
}

// addOperand adds the script of -c: the first word after the options.
func (c *commands) addOperand(words []word, depth int) {
	for i := 0; i < len(words); i++ {
		option := words[i].text
		if len(option) < 2 || !strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "+") {
			c.addEvaluated(words[i:i+1], depth)
			return
		}

		if strings.HasSuffix(option, "o") || strings.HasSuffix(option, "O") {
			i++
		}
	}
}

// addFed adds the commands that a shell reads from its input.
func (c *commands) addFed(call simpleCall, depth int) {
	for _, r := range call.redirs {
		if r.feeds {
			c.addEvaluated([]word{r.script}, depth)
			return
		}
	}

	c.addUnknown(call.source())
}

// addFound adds the commands that find runs.
func (c *commands) addFound(call simpleCall, depth int) {
	for i := 0; i < len(call.words); i++ {
		switch call.words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}

		rest := call.words[i+1:]

		end := slices.IndexFunc(rest, func(w word) bool { return w.text == ";" || w.text == "+" })
		if end < 0 {
			end = len(rest)
		}

		found := slices.Clone(rest[:end])
		for j, w := range found {
			found[j].text = strings.ReplaceAll(w.text, "{}", string(unknown))
		}

		c.addIfAny(call.with(found), depth)

		i += end
	}
}

// addPrefixed adds the command after a prefix.
func (c *commands) addPrefixed(call simpleCall, p prefix, depth int) {
	words, name := call.words[1:], path.Base(call.words[0].text)
	operands := p.operands

	for len(words) > 0 {
		option := words[0].text

		switch {
		case name == "command" && (option == "-v" || option == "-V"):
			return // it describes the command
		case name == "env" && (strings.HasPrefix(option, "-S") || strings.HasPrefix(option, "--split-string")):
			c.addSplit(words, depth)
			return
		case option == "--":
			words = words[1:]
			c.addBehind(call, words, operands, p, depth)

			return
		case strings.HasPrefix(option, "--") && !strings.Contains(option, "="):
			c.addSuffixes(call.with(words), depth) // the option can take a value
			return
		case strings.HasPrefix(option, "-") && len(option) > 1:
			words = words[1:]

			if strings.IndexByte(p.values, option[len(option)-1]) >= 0 && len(words) > 0 && len(option) == 2 {
				words = words[1:]
			}
		case option == "-" && name == "env":
			words = words[1:]
		case p.assigns && strings.Contains(option, "="):
			words = words[1:]
		default:
			c.addBehind(call, words, operands, p, depth)
			return
		}
	}
}

// addBehind adds a command that starts after some operands.
func (c *commands) addBehind(call simpleCall, words []word, operands int, p prefix, depth int) {
	words = slices.Clone(words[min(operands, len(words)):])
	if p.appends && len(words) > 0 {
		words = append(words, word{"", string(unknown)})
	}

	c.addIfAny(call.with(words), depth)
}

// addSplit adds the command that env splits out of one word.
func (c *commands) addSplit(words []word, depth int) {
	words = slices.Clone(words)

	first := strings.TrimPrefix(words[0].text, "-S")
	if rest, ok := strings.CutPrefix(first, "--split-string"); ok {
		first = strings.TrimPrefix(rest, "=")
	}

	words[0] = word{first, first}
	c.addEvaluated(words, depth)
}

// addSuffixes adds every command that the words can start.
func (c *commands) addSuffixes(call simpleCall, depth int) {
	words := call.words
	if len(words) > maxSuffixes || depth > maxNesting {
		c.addUnknown(call.source())
		return
	}

	for i := range words {
		rest := append(slices.Clone(words[i:]), word{"", string(unknown)})
		suffix := call.with(rest).subject()
		suffix.allowed, suffix.possible, suffix.guess = nil, nil, true
		c.subjects = append(c.subjects, suffix)

		if name := path.Base(words[i].text); i > 0 && !slices.Contains(openPrefixes, name) {
			c.addInner(call.with(words[i:]), depth+1)
		}

		if option := words[i].text; option == "-c" || option == "--command" {
			c.addOperand(words[i+1:], depth+1)
		}

		if i > 0 && strings.ContainsAny(words[i].text, " \t\n") {
			c.addEvaluated(words[i:i+1], depth+1)
		}
	}
}

func (c *commands) addIfAny(call simpleCall, depth int) {
	if len(call.words) > 0 {
		c.addCall(call, depth)
	}
}
