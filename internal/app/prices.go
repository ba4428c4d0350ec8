package app

import (
	"fmt"
	"strconv"
	"strings"

	"everloop/domain"
)

// priceSettings say what models cost whose server does not say.
type priceSettings struct {
	ModelPrices []string `name:"model-price" env:"MODEL_PRICES" help:"Prices of models for a million tokens, as name=input/output or name=input/output/cache_read/cache_write, separated by commas. They come before those of the model list."`
}

func (s priceSettings) check() error {
	_, err := s.prices()
	return err
}

// prices gives the prices by the names of their models.
func (s priceSettings) prices() (map[string]domain.Price, error) {
	prices := map[string]domain.Price{}

	for _, text := range s.ModelPrices {
		name, price, err := parsePrice(text)
		if err != nil {
			return nil, fmt.Errorf("MODEL_PRICES: %q is not a price, as m-1=0.5/1.5 or m-1=0.5/1.5/0.05/0.6", text)
		}

		prices[name] = price
	}

	return prices, nil
}

func parsePrice(text string) (name string, price domain.Price, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return "", price, strconv.ErrSyntax
	}

	var amounts []float64

	for part := range strings.SplitSeq(text[at+1:], "/") {
		amount, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return "", price, err
		}

		amounts = append(amounts, amount)
	}

	switch len(amounts) {
	case 2:
		price = domain.Price{Input: amounts[0], Output: amounts[1]}
	case 4:
		price = domain.Price{Input: amounts[0], Output: amounts[1], CacheRead: &amounts[2], CacheWrite: &amounts[3]}
	default:
		return "", price, strconv.ErrSyntax
	}

	if !price.Known() {
		return "", price, strconv.ErrRange
	}

	return strings.TrimSpace(text[:at]), price, nil
}
