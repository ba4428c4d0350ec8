// Package account is the area of the interface for users and what belongs to them: keys,
// preferences, environments, budgets, usage. It must not know how they sign in.
package account
