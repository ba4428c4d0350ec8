module github.com/muhlemmer/gu

go 1.26
