package api_test

// notWalked are operations that have tests of their own and no place in the walk
// yet. The list may only shrink.
var notWalked = []string{}
