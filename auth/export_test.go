package auth

// GuessAddresses returns how many addresses with wrong guesses are remembered.
func GuessAddresses(a *Authenticator) int {
	a.guesses.mu.Lock()
	defer a.guesses.mu.Unlock()

	return len(a.guesses.failures)
}
