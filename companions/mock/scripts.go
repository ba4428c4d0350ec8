package mock

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// menu names what the demonstration can show.
const menu = "“build a program”, “list the files”, “search the web”, “count to 5”, “run things in parallel”, " +
	"“ask me a question”, “make a plan”, “delegate to a sub-agent” or “a long text”."

var countTo = regexp.MustCompile(`\bcount(?: up)?(?: to)? (\d{1,3})\b`)

// scripts by the words that choose them; the first match counts.
var scripts = []struct {
	words *regexp.Regexp
	moves func(said string) []move
}{
	{regexp.MustCompile(`\b(web|internet|online|search for|look up)\b`), webMoves},
	{regexp.MustCompile(`\b(count|loop|several steps)\b`), countMoves},
	{regexp.MustCompile(`\b(parallel|at once|several tools)\b`), parallelMoves},
	{regexp.MustCompile(`\b(sub-?agents?|delegate)\b`), agentMoves},
	{regexp.MustCompile(`\b(questions?|ask me|choose|choice)\b`), questionMoves},
	{regexp.MustCompile(`\b(plan|tasks?|to-?do)\b`), taskMoves},
	{regexp.MustCompile(`\b(long|essay|story|article|explain|markdown)\b`), longMoves},
	{regexp.MustCompile(`\b(make|build|write|create|program|script|code|run)\b`), buildMoves},
	{regexp.MustCompile(`\b(files?|folders?|list|directory|workspace|search|grep)\b`), fileMoves},
}

// choose gives the script for what the user said.
func (c *conversation) choose() []move {
	if c.req.offers("SubmitPlan") {
		return planningMoves()
	}

	said := strings.ToLower(c.user)
	if moves := byWords(said); moves != nil {
		return moves
	}

	if c.first {
		return tourMoves()
	}

	return againMoves()
}

func byWords(said string) []move {
	for _, s := range scripts {
		if s.words.MatchString(said) {
			return s.moves(said)
		}
	}

	return nil
}

// tourMoves is the first chat of a user who just says hello.
func tourMoves() []move {
	return []move{
		{
			thinking: "A new conversation. I say what I am, look around in the workspace, and then ask what to show.",
			say:      says("Let me look at your workspace with the shell first."),
			calls:    []Call{bash(`echo "Hello from your workspace"; date; ls -la`, "Say hello and list the workspace")},
		},
		{
			thinking: "The command ran. Now a question, which pauses this chat until it is answered.",
			say: reports(
				"That was a real command in your session's sandbox:",
				"This chat now waits for you, for as long as you like: even a restart does not lose the question.",
			),
			calls: []Call{ask(question{
				Question: "What shall I show you next?", Header: "Next",
				Options: []option{
					{"Build a program", "Write a small script, run it and read it back"},
					{"Tools in parallel", "Run several commands at once"},
					{"A plan with tasks", "Create tasks and work through them"},
					{"A long text", "Stream a longer answer"},
				},
			})},
			next: func(chosen string) []move {
				if moves := byWords(chosen); moves != nil {
					return moves
				}

				return []move{{say: says("Good. You can ask me for " + menu)}}
			},
		},
		{say: says("You can ask me for " + menu)},
	}
}

// againMoves answers what no script fits, later in a conversation.
func againMoves() []move {
	return []move{
		{
			thinking: "I do not understand free text. I show one command and say what I know.",
			say:      says("I am a script and only understand a few words. Here is some output from the sandbox."),
			calls:    []Call{bash(`date; ls | head -n 20`, "Show the time and the files")},
		},
		{say: reports("The sandbox answered:", "Words that I understand: "+menu)},
	}
}

const programFile = "demo-table.sh"

const program = `#!/bin/sh
# Prints a multiplication table. Usage: demo-table.sh [size]
n="${1:-5}"
i=1
while [ "$i" -le "$n" ]; do
  j=1
  while [ "$j" -le "$n" ]; do
    printf '%4d' "$((i * j))"
    j=$((j + 1))
  done
  printf '\n'
  i=$((i + 1))
done
`

// buildMoves writes a program, runs it, reads it and asks what to do with it.
func buildMoves(string) []move {
	return []move{
		{
			thinking: "A small shell program is quick to write and to check. A multiplication table will do.",
			say:      says("I will write a small program, run it and read it back. First the file."),
			calls:    []Call{use("Write", map[string]any{"file_path": programFile, "content": program})},
		},
		{
			say:   says("Now I run it."),
			calls: []Call{bash("sh "+programFile+" && ls -la "+programFile, "Run the program")},
		},
		{
			say:   reports("It works:", "Let me read the file back."),
			calls: []Call{use("Read", map[string]any{"file_path": programFile})},
		},
		{
			thinking: "Everything worked. The user decides how to go on.",
			say:      says("The file is as I wrote it. How shall I go on?"),
			calls: []Call{ask(question{
				Question: "Which next?", Header: "Next",
				Options: []option{
					{"A larger table", "Run the program with size 9"},
					{"Change the program", "Edit its default size and run it again"},
					{"Stop here", "Finish with a summary"},
				},
			})},
			next: buildNext,
		},
		{say: says("I wrote `" + programFile + "`, ran it and read it back.")},
	}
}

func buildNext(chosen string) []move {
	done := "\n\n**Summary:** I wrote `" + programFile + "`, ran it, read it back and followed your choice. The file is in your workspace."

	switch {
	case strings.Contains(chosen, "larger"):
		return []move{
			{say: says("A larger table it is."), calls: []Call{bash("sh "+programFile+" 9", "Print a table of size 9")}},
			{say: reports("Here it is:", strings.TrimSpace(done))},
		}
	case strings.Contains(chosen, "change"):
		return []move{
			{say: says("I change the default size from 5 to 7."), calls: []Call{use("Edit", map[string]any{
				"file_path": programFile, "old_string": `n="${1:-5}"`, "new_string": `n="${1:-7}"`,
			})}},
			{say: says("And run it again."), calls: []Call{bash("sh "+programFile, "Run the changed program")}},
			{say: reports("The changed program prints:", strings.TrimSpace(done))},
		}
	case chosen == "" || strings.Contains(chosen, "stop"):
		return []move{{say: says("Then I stop here." + done)}}
	}

	return []move{{say: says("You answered “" + chosen + "”, which is beyond a script." + done)}}
}

// fileMoves looks at the files of the workspace.
func fileMoves(string) []move {
	return []move{
		{
			thinking: "Listing by pattern and by shell at the same time.",
			say:      says("I look at the files in two ways at once."),
			calls:    []Call{use("Glob", map[string]any{"pattern": "**/*"}), bash("ls -la && du -sh .", "List the workspace and its size")},
		},
		{say: reports("This is what the workspace holds:", "You can open and change the files in the file view, too.")},
	}
}

// countMoves makes one tool call after the other.
func countMoves(said string) []move {
	n := 3
	if found := countTo.FindStringSubmatch(said); found != nil {
		n, _ = strconv.Atoi(found[1]) // at most three digits
	}

	n = min(max(n, 1), 20)

	var moves []move
	for i := 1; i <= n; i++ {
		moves = append(moves, move{
			say:   says(fmt.Sprintf("Step %d of %d.", i, n)),
			calls: []Call{bash(fmt.Sprintf("echo %d", i), fmt.Sprintf("Count: %d", i))},
		})
	}

	counted := fmt.Sprintf("Counted to %d with one command a step. Each step was a model call, a tool call and a durable record.", n)

	return append(moves, move{say: says(counted)})
}

// parallelMoves runs tools at the same time.
func parallelMoves(string) []move {
	var calls []Call
	for _, name := range []string{"one", "two", "three"} {
		calls = append(calls, bash("sleep 1; echo "+name+" finished at $(date +%T)", "Wait a second: "+name))
	}

	calls = append(calls, use("Glob", map[string]any{"pattern": "*"}))

	return []move{
		{
			thinking: "Independent calls can go into one answer; the agent runs them at the same time.",
			say:      says("Three commands that take a second each, and a file search, all at once."),
			calls:    calls,
		},
		{say: func(c *conversation) string {
			var text strings.Builder
			text.WriteString("All of them finished; together they took about as long as one:\n\n")

			for _, result := range c.results(c.step - 1) {
				text.WriteString("- " + strings.ReplaceAll(excerpt(result, 1, 80), "\n", " ") + "\n")
			}

			return text.String()
		}},
	}
}

// agentMoves gives a job to a sub-agent.
func agentMoves(string) []move {
	return []move{
		{
			thinking: "A sub-agent has its own loop and its own context.",
			say:      says("I hand this to a sub-agent; its steps appear below the call."),
			calls: []Call{
				use(
					"Agent",
					map[string]any{"description": "Look around", "prompt": "List the files of the workspace and report what you see."},
				),
			},
		},
		{say: reports("The sub-agent reported:", "It worked in a loop of its own, and only its report came back to me.")},
	}
}

// questionMoves asks two questions at once.
func questionMoves(string) []move {
	return []move{
		{
			say: says("Two questions at once; the second one takes several answers."),
			calls: []Call{ask(
				question{Question: "Which colour do you like best?", Header: "Colour", Options: []option{
					{"Blue", "Like the sea"}, {"Green", "Like the woods"}, {"Red", "Like a brick"},
				}},
				question{Question: "Which tools do you use?", Header: "Tools", MultiSelect: true, Options: []option{
					{"Shell", "Commands"}, {"Editor", "Files"}, {"Browser", "Pages"},
				}},
			)},
			next: func(chosen string) []move {
				if chosen == "" {
					return []move{{say: says("No answer came, and that is fine.")}}
				}

				return []move{
					{
						say:   says("Noted. I write your answer to a file."),
						calls: []Call{use("Write", map[string]any{"file_path": "demo-answer.txt", "content": chosen + "\n"})},
					},
					{say: says("You chose: " + chosen + ". It is in `demo-answer.txt`.")},
				}
			},
		},
		{say: says("I may not ask questions here, so I go on without.")},
	}
}

// taskMoves makes a list of tasks and works on the first.
func taskMoves(string) []move {
	var calls []Call
	for _, subject := range []string{"Look at the workspace", "Write a small program", "Check that it runs"} {
		calls = append(calls, use("TaskCreate", map[string]any{"subject": subject, "description": "A task of the demonstration"}))
	}

	return []move{
		{thinking: "A plan first, then the work.", say: says("I write down the plan as tasks."), calls: calls},
		{say: says("The first task: look at the workspace."), calls: []Call{bash("ls -la", "List the workspace")}},
		{say: reports("The first task is done:", "Say “build a program” and I do the other two.")},
	}
}

// planningMoves is for planning mode, where only looking is allowed.
func planningMoves() []move {
	steps := []map[string]any{
		{"id": "1", "title": "Look at the workspace", "detail": "List the files to know what is there."},
		{
			"id":         "2",
			"title":      "Write the program",
			"detail":     "Create " + programFile + ", a multiplication table.",
			"depends_on": []string{"1"},
		},
		{"id": "3", "title": "Run and check it", "detail": "Run it with two sizes and compare.", "depends_on": []string{"2"}},
	}

	return []move{
		{
			thinking: "In planning mode I may look but not act.",
			say:      says("I look around before I plan."),
			calls:    []Call{use("Glob", map[string]any{"pattern": "**/*"})},
		},
		{
			say:   says("Here is my plan."),
			calls: []Call{use("SubmitPlan", map[string]any{"title": "A small program, step by step", "steps": steps})},
		},
		{say: says("The plan is above. Leave planning mode and say “build a program” to have it carried out.")},
	}
}

// longMoves streams a long answer after one look at the clock.
func longMoves(string) []move {
	return []move{
		{
			thinking: "A long answer. I look at the clock first, so that its date is right.",
			say:      says("One moment."),
			calls:    []Call{bash("date", "Show the date")},
		},
		{say: func(c *conversation) string { return fmt.Sprintf(longText, c.lastResult()) }},
	}
}
