package mock

// longText explains the product while it shows how a long answer streams. Its
// one verb is the output of the date command.
const longText = `# What happens while you read this

*The clock of the sandbox said: %s*

You sent one message. Before it was acknowledged it was written to a database, so that from that moment no crash could lose it. Then a run was started for it, and the run asked a model, or in this case a script that stands in for one, what to do.

## One step after the other

1. The conversation so far goes to the model, with the list of tools that it may use.
2. The answer streams back in small pieces. Each piece has a number, and a client that was away for a while can ask for everything after the last number it saw.
3. When the answer asks for tools, they run in a sandbox, several at a time where they do not depend on each other.
4. The results go back to the model, and the next step begins.
5. When an answer asks for no tool, the chat ends, once, with a reason.

## What survives what

| What breaks | What you see |
|---|---|
| Your connection | Nothing is lost; the stream goes on where you left it |
| The process that ran a tool | The call says that its outcome is not known, and is not repeated in secret |
| The model server | The call is tried again with growing pauses |
| The whole machine | After the restart the chat goes on from its last step |

## A question may wait for months

When the agent asks you something, nothing keeps running in the meantime. The question is a record; your answer wakes the conversation again:

` + "```json" + `
{"answers": [{"question": "Which next?", "selected": ["A long text"], "custom": null}]}
` + "```" + `

## And this text?

It is always the same, because I am a script. A real model would have written something new. The way it reached you is the real one, though: word by word, over the same road, with every piece on record.
`
