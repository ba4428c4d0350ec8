package passwords

import "strings"

// common are frequently guessed passwords of [Min] characters or more, in lower case.
var common = func() map[string]bool {
	all := map[string]bool{}
	for _, one := range strings.Fields(commonText) {
		all[one] = true
	}

	return all
}()

const commonText = `
0123456789 01234567890 012345678910 0987654321 09876543210 1020304050 1029384756 123123123123 1231231234
1234512345 12345123456 1234561234 123456123456 1234567890 12345678900 12345678901 123456789010 1234567890123
1234567891 12345678910 123456789101 1234567891011 123456789a 123456789abc 123456789q 1234abcd1234 1234qwer1234
12344321234 123qwe123qwe 1357924680 147258369147 1472583690 147852369147 1478523690 1q2w3e4r5t 1q2w3e4r5t6y 1q2w3e4r5t6y7u
1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qazxsw23edc 741852963741 7894561230 789456123789 9876543210 987654321a
a123456789 a1234567890 aa12345678 aa123456789 abc123456789 abcd123456 abcd12345678 abcde12345 abcdefghij abcdefghijk
abcdefghijkl admin12345 admin123456 admin1234567 admin12345678 adminadmin adminadmin1 adminadmin123 administrator
administrator1 administrator123 asdf123456 asdfasdfasdf asdfghjkl1 asdfghjkl123 asdfghjklqwertyuiop asdfghjkl;
basketball baseball123 changeme12 changeme123 changeme1234 changemenow chocolate1 chocolate123 default123 defaultpassword
everloop12 everloop123 everloop1234 everloop12345 everlooppassword football12 football123 football1234
hello12345 hello123456 helloworld helloworld1 helloworld123 iloveyou12 iloveyou123 iloveyou1234 iloveyousomuch iloveyouforever
jennifer123 letmein123 letmein1234 letmein12345 letmeinnow liverpool1 liverpool123 manchester michael123 minecraft1 minecraft123
monkey12345 monkey123456 mypassword mypassword1 mypassword123 nopassword p@ssw0rd12 p@ssw0rd123 p@ssw0rd1234 p@ssword123
passw0rd12 passw0rd123 passw0rd1234 password!1 password00 password01 password10 password11 password12 password123 password123! password1234
password12345 password123456 password2024 password2025 password2026 passwordpassword password_1 princess12 princess123
q1w2e3r4t5 q1w2e3r4t5y6 qazwsxedc1 qazwsxedc123 qazwsxedcrfv qwe123qwe123 qweasdzxc1 qweasdzxc123 qweqweqwe123 qwer123456 qwer12345678
qwert12345 qwert123456 qwerty1234 qwerty12345 qwerty123456 qwerty1234567 qwerty12345678 qwerty123456789 qwertyqwerty qwertyuiop
qwertyuiop1 qwertyuiop12 qwertyuiop123 qwertyuiop[] qwertyuiopasdfghjkl qwertyuiopasdfghjklzxcvbnm qwertz1234 qwertz12345 qwertzuiop
root123456 rootpassword secret1234 secret12345 secret123456 secretpassword starwars12 starwars123 sunshine12 sunshine123
superman12 superman123
test123456 test1234567 test12345678 testpassword testpassword1 testtesttest testing123 testing1234 thisisapassword trustno123
unknown123 user123456 user12345678 welcome123 welcome1234 welcome12345 welcome2024 welcome2025 welcome2026 whatever12 whatever123
zaq12wsxcde3 zxcvbnm123 zxcvbnm1234 zxcvbnm12345 zxcvbnmasdfghjkl
`

// Common reports whether a password is among the first that an attacker tries: it is in a list,
// in any case, or one character repeated.
func Common(password string) bool {
	lower := strings.ToLower(password)
	repeated := lower != "" && strings.Trim(lower, lower[:1]) == ""

	return common[lower] || repeated
}
