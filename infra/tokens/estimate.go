package tokens

// Estimate guesses how many tokens a text has for a model whose tokenizer is not
// known, by what the vocabularies of large models have in common: a short word
// is one token, a long one is several, digits come in threes, a sign stands
// alone, spaces join the word behind them, and letters beyond Latin take a token
// each or a little less. It looks at each byte once.
func Estimate(text string) int {
	quarters := 0 // of tokens
	word, digits, spaces, last := 0, 0, 0, rune(0)
	flush := func() {
		if word > 0 {
			quarters += 4 + max(word-6, 0) // beyond six letters a token for each four
			word = 0
		}

		if digits > 0 {
			quarters += 4 * ((digits + 2) / 3)
			digits = 0
		}
	}

	for _, r := range text {
		if r != ' ' && spaces > 1 {
			quarters += 4 // a run of spaces, as an indent
		}

		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			if digits > 0 || word > 0 && r <= 'Z' && last > 'Z' { // aWord
				flush()
			}

			word++
		case r >= '0' && r <= '9':
			if word > 0 {
				flush()
			}

			digits++
		case r == ' ':
			flush()

			spaces++
			last = r

			continue
		case r == '\n', r == '\t', r == '\r':
			flush()

			if last != r {
				quarters += 4
			}
		case r < 0x80:
			flush()

			if last != r { // a row of the same signs is one
				quarters += 3
			} else {
				quarters++
			}
		case r < 0x2000: // European and other alphabets
			flush()

			quarters += 2
		case r > 0xffff: // pictures and rare scripts
			flush()

			quarters += 8
		default: // Chinese, Japanese, Korean
			flush()

			quarters += 3
		}

		spaces = 0
		last = r
	}

	flush()

	if quarters == 0 && spaces > 0 {
		return 1
	}

	return (quarters + 3) / 4
}
