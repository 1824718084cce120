module example.invalid/average

go 1.19
