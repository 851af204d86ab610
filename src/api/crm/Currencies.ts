/**
 * The currencies in List One of ISO 4217, as of mid-2024 (as in `currency-codes` 2.2.0), with the later changes. XCG has
 * replaced ANG, and XAD is new. CUC is withdrawn, and BGN too, because Bulgaria uses the euro.
 */
import { Schema } from "effect"

const codes = `
  AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE
  CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF
  GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR
  LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN
  PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS
  TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAD XAF XAG XAU XBA XBB XBC
  XBD XCD XCG XDR XOF XPD XPF XPT XSU XTS XUA XXX YER ZAR ZMW ZWG`

const known = new Set(codes.trim().split(/\s+/))

export const Currency = Schema.String.check(
  Schema.makeFilter((text: string) => known.has(text), {
    expected: "a current currency code of ISO 4217, such as EUR",
    toJsonSchema: () => ({ enum: [...known] })
  })
)
