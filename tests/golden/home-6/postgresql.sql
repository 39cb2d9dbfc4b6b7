--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: hermitage_refuse(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hermitage_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    neighbours character varying(20),
    protects text,
    id_column text,
    rows_per_unit bigint,
    disagreeing boolean DEFAULT false NOT NULL,
    epsilon_cap double precision,
    delta_cap double precision,
    frozen boolean NOT NULL,
    keyed boolean DEFAULT true NOT NULL,
    split_key bytea,
    created bigint NOT NULL
);


--
-- Name: charges; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.charges (
    account_id character varying(36) NOT NULL,
    "position" bigint NOT NULL,
    charge_id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    state character varying(12) NOT NULL,
    purpose text NOT NULL,
    who character varying(120) NOT NULL,
    neighbours character varying(20) NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    mu_squared_units bigint NOT NULL,
    slack_units bigint NOT NULL,
    coordinates bigint NOT NULL,
    additive_delta_units bigint NOT NULL,
    pure_units bigint DEFAULT '0'::bigint NOT NULL,
    accountant text NOT NULL,
    certificate_id text,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: decisions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.decisions (
    account_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    charges bigint NOT NULL,
    kind character varying(12) NOT NULL,
    body text NOT NULL,
    who character varying(120) NOT NULL,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: drafts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.drafts (
    table_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    saved bigint NOT NULL
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    account_id character varying(36),
    run_id character varying(36),
    table_id character varying(36),
    who character varying(120) NOT NULL,
    detail text NOT NULL,
    "time" bigint NOT NULL
);


--
-- Name: events_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: events_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;


--
-- Name: hermitage_commits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hermitage_commits (
    client text NOT NULL,
    number bigint NOT NULL,
    noted timestamp with time zone NOT NULL
);


--
-- Name: releases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.releases (
    id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    certificate_id text NOT NULL,
    certificate_digest character varying(64) NOT NULL,
    attestations text NOT NULL,
    who character varying(120) NOT NULL,
    sealed bigint NOT NULL
);


--
-- Name: runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.runs (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    table_id character varying(36),
    test_table_id character varying(36),
    config text NOT NULL,
    device text
);


--
-- Name: store_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_version (
    number integer NOT NULL,
    since bigint
);


--
-- Name: tables; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tables (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    kind character varying(10) NOT NULL,
    size bigint NOT NULL,
    state character varying(10) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    keep_until bigint,
    form text,
    schema text,
    created bigint NOT NULL,
    deleted bigint
);


--
-- Name: work; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.work (
    id character varying(36) NOT NULL,
    kind character varying(10) NOT NULL,
    subject character varying(120) NOT NULL,
    asked text,
    owner character varying(120) NOT NULL,
    state character varying(10) NOT NULL,
    phase text NOT NULL,
    step bigint NOT NULL,
    steps bigint NOT NULL,
    losses text NOT NULL,
    message text NOT NULL,
    incident_id character varying(16),
    cancel_requested bigint,
    gpus integer NOT NULL,
    cpus integer NOT NULL,
    place bigint,
    host text,
    pid bigint,
    pid_created double precision,
    claimed boolean NOT NULL,
    attempts integer NOT NULL,
    heartbeat bigint,
    gpu text,
    created bigint NOT NULL,
    started bigint,
    finished bigint
);


--
-- Name: events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 'survey', 'add_remove', 'person', NULL, 1, false, 6, 1e-05, false, true, '\xde52fe24bfd625c33b6cf6609be0f1045ba9a3bbe4cdeb6af6fd388a6e7a72af5c4ee137caf59bddf93ee1920570eb632ded4efe51dee542883f0cb6', 1795390780);
INSERT INTO public.accounts VALUES ('bdb5c906-85e6-4969-94fc-85bce72622e4', 'visits', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, false, true, '\xaa74a83d16207d2e5365b1b6d0cedbc2b9e2253330fa448700be412dd1f95cead7c9d9901d67d9b824ed3f87d468d8d11f2cd6963f615227e8034805', 1795390786);
INSERT INTO public.accounts VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 'cells', 'one_cell', 'person', NULL, 1, false, NULL, NULL, false, true, '\xe0e2dde6512530bb11c3bedad5f86542dd51a82251c09153fcd688793e878b6291584cb6f51ce9228482108665ab5bb3c4c03bd91bb5932a16b5229f', 1795390789);
INSERT INTO public.accounts VALUES ('60f9b57f-f9e9-46ca-94eb-9e7c113d0cb7', 'undescribed', NULL, NULL, NULL, NULL, false, 2, 1e-06, false, true, NULL, 1795390798);
INSERT INTO public.accounts VALUES ('1f037189-78d4-4492-821c-08ec238bff45', 'frozen', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, true, true, NULL, 1795390798);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 1, '922bec0f-6037-45dd-9ba8-3fc6ea77bba2', 'a7bbfca0-2577-443e-8e47-2689436f16ad', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390781, 'f478c414ab409188225d0b2f1610631b8ab93bb55d6da69bdcea40b3cc67b1bf', '1512f22661f983b4b995c45d050fddf7350dffd955468c57da14d90df260b862');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 2, '922bec0f-6037-45dd-9ba8-3fc6ea77bba2', 'a7bbfca0-2577-443e-8e47-2689436f16ad', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390782, '1512f22661f983b4b995c45d050fddf7350dffd955468c57da14d90df260b862', '247615369db7fe6e7daa0b238d15b84b94972cc7b258e22c02fdd0bf0c0103e4');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 3, '922bec0f-6037-45dd-9ba8-3fc6ea77bba2', 'a7bbfca0-2577-443e-8e47-2689436f16ad', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', 'c0a58647350362e7', 1795390786, '247615369db7fe6e7daa0b238d15b84b94972cc7b258e22c02fdd0bf0c0103e4', '57591d0e4538c88f7975f6311725f0da3c9971b37a056c59f3d04628b454a414');
INSERT INTO public.charges VALUES ('bdb5c906-85e6-4969-94fc-85bce72622e4', 1, '53df6da1-83a0-42ad-a99c-2906f50c19dc', '65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390787, '0f350e9ce6211faa61c115fc30fddb1f0edd0ef9d9b36ab38f6d40c520bec5ed', 'c2cb4d621c14aed42a5f27d0c0c294e6addda790cb3f7f2509c934a6e26c2767');
INSERT INTO public.charges VALUES ('bdb5c906-85e6-4969-94fc-85bce72622e4', 2, '53df6da1-83a0-42ad-a99c-2906f50c19dc', '65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390788, 'c2cb4d621c14aed42a5f27d0c0c294e6addda790cb3f7f2509c934a6e26c2767', '59607351d722ead927f20e2b01816f96ec6051c6d02d5af25c23bcc4522c5609');
INSERT INTO public.charges VALUES ('bdb5c906-85e6-4969-94fc-85bce72622e4', 3, '53df6da1-83a0-42ad-a99c-2906f50c19dc', '65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', 'f2225e56de1ac6fc', 1795390789, '59607351d722ead927f20e2b01816f96ec6051c6d02d5af25c23bcc4522c5609', 'eb96e6b3d87a5f7e099273c2e9521c3f668769ab7e50a7c087396244d1200a7c');
INSERT INTO public.charges VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 1, 'feb7fc5b-30aa-40da-a7c7-36cd0497536b', '8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', 'reserved', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795390790, 'c4f774a0ab2df0133e55f1e8ea0cf3ca532d7a96cc367b3c4628e1ce30a0c8eb', '90dc69ceecb2c5f59c988789cfbc5a77f2a3018ff3382fd9d7eeeff9eb18522b');
INSERT INTO public.charges VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 2, 'feb7fc5b-30aa-40da-a7c7-36cd0497536b', '8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', 'spent', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795390791, '90dc69ceecb2c5f59c988789cfbc5a77f2a3018ff3382fd9d7eeeff9eb18522b', '6e03be7f8f4d8bd324eb98660786f6999b9da38189079aca953c5d92b8a24a06');
INSERT INTO public.charges VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 3, 'feb7fc5b-30aa-40da-a7c7-36cd0497536b', '8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', 'released', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', 'c0ba556e39f63634', 1795390792, '6e03be7f8f4d8bd324eb98660786f6999b9da38189079aca953c5d92b8a24a06', '3470cf7b446b0bd050be9a55e7757f673d0dea9e25909c9128194c3471bd03ac');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 4, 'b55a4d64-1c7a-4d42-9a69-24f4d9f22f25', 'e93729ee-78af-456f-b455-21e499ba721e', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390794, '57591d0e4538c88f7975f6311725f0da3c9971b37a056c59f3d04628b454a414', 'f7a05919f761bd85fb3f5aac0053e9831abb2a33bdf2196fad6094856c915f3e');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 5, '04b9e400-0dd6-4745-97bc-80d8c962ccaa', '8617a0fa-783b-4d20-bc64-7dc58995b597', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390795, 'f7a05919f761bd85fb3f5aac0053e9831abb2a33bdf2196fad6094856c915f3e', 'f294983e1fa2f81e805d9f731d8897a659d225834064c1f12e83dffa166f60e5');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 6, '7cfaed4f-003e-4583-b5a8-2e11244b207c', 'afef98ff-0857-4e0d-9b6d-c255cde8c539', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390796, 'f294983e1fa2f81e805d9f731d8897a659d225834064c1f12e83dffa166f60e5', 'ec146db869ec560522965ec833a2b24ccd421059739630c278d0c6988bcdfbb7');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 7, 'a86b5c1e-ddc4-4b29-9508-4eccaa6263de', '6861b5ce-5458-4ac2-be65-c1cb3000d7f2', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390797, 'ec146db869ec560522965ec833a2b24ccd421059739630c278d0c6988bcdfbb7', '69eee507072dd83fc991c7adead1c31721319414652919e347296e46d0b43738');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 8, '96b091b8-28fe-4680-a9fe-d6c5fce344bd', '7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, '69eee507072dd83fc991c7adead1c31721319414652919e347296e46d0b43738', 'c33d799fe64545600865d95f6411cc218b02d999bcffb171bc67d6c97d4c0f55');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 9, 'd234b5c1-0ba0-4a48-ac3b-d4f403f45545', 'de905b53-7cf3-4df8-b7d1-46f9a851aff9', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, 'c33d799fe64545600865d95f6411cc218b02d999bcffb171bc67d6c97d4c0f55', '52d1e5a393e0f54c8adffd6d2ccaa644b18b6820ff95711918f599a627031c98');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 10, 'd234b5c1-0ba0-4a48-ac3b-d4f403f45545', 'de905b53-7cf3-4df8-b7d1-46f9a851aff9', 'freed', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, '52d1e5a393e0f54c8adffd6d2ccaa644b18b6820ff95711918f599a627031c98', 'd41bf5f874f229a890a5b461540af9f782c20ecb82e8c2d5091a45a3a1da595d');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 11, '7cfaed4f-003e-4583-b5a8-2e11244b207c', 'afef98ff-0857-4e0d-9b6d-c255cde8c539', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, 'd41bf5f874f229a890a5b461540af9f782c20ecb82e8c2d5091a45a3a1da595d', '044b2a0ac3e11456cce64b2ec134af1b7b9a7dd1d7e9b757e018d4a47f37bb52');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 12, 'a86b5c1e-ddc4-4b29-9508-4eccaa6263de', '6861b5ce-5458-4ac2-be65-c1cb3000d7f2', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, '044b2a0ac3e11456cce64b2ec134af1b7b9a7dd1d7e9b757e018d4a47f37bb52', 'f69358ec901289a7bf1b370962c71e8b7bdb8d42523bd5f98792f4a680afa56b');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 13, '96b091b8-28fe-4680-a9fe-d6c5fce344bd', '7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, 'f69358ec901289a7bf1b370962c71e8b7bdb8d42523bd5f98792f4a680afa56b', '7af0f046e1ab6d0b4ac6170c257cbc0f31f688c301677ab24510a5bd0b630420');
INSERT INTO public.charges VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 14, '96b091b8-28fe-4680-a9fe-d6c5fce344bd', '7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', 'failed-spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795390798, '7af0f046e1ab6d0b4ac6170c257cbc0f31f688c301677ab24510a5bd0b630420', '21e8405e9512c7a34f0bff1a8dc9de0bf788043dc0af69d5442c777cee751d07');


--
-- Data for Name: decisions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.decisions VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 1, 0, 'cap', '{"delta": 1e-05, "epsilon": 6.0}', 'owner', 1795390780, 'a744a615b240453516787e83c5e4d3e0854c3bd774a627146a54e51d86f42319', 'b5621b8c49e51abefb777a8d6c0d86776d9c30a8e64d3bb457e59129bdd3b721');
INSERT INTO public.decisions VALUES ('029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 2, 0, 'unit', '{"id_column": null, "neighbours": "add_remove", "protects": "person", "rows_per_unit": 1}', '', 1795390781, 'b5621b8c49e51abefb777a8d6c0d86776d9c30a8e64d3bb457e59129bdd3b721', 'f478c414ab409188225d0b2f1610631b8ab93bb55d6da69bdcea40b3cc67b1bf');
INSERT INTO public.decisions VALUES ('bdb5c906-85e6-4969-94fc-85bce72622e4', 1, 0, 'unit', '{"id_column": "pid", "neighbours": "add_remove", "protects": "patient", "rows_per_unit": null}', '', 1795390787, '879eb7d7824a76741fd8b6cb54be4d1b5a13059339c892b2809f76b237df4b7f', '0f350e9ce6211faa61c115fc30fddb1f0edd0ef9d9b36ab38f6d40c520bec5ed');
INSERT INTO public.decisions VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 1, 0, 'unit', '{"id_column": null, "neighbours": "one_cell", "protects": "person", "rows_per_unit": 1}', '', 1795390790, '8974b987e1eadb202c3a866c0d67b87a190f8e6f26010a40172d93e071182ba8', '873fef6ac3ba3eeab088e5ace5c4fc9ca24465477eafd0fdeb312583a099c86e');
INSERT INTO public.decisions VALUES ('3c4c243d-a084-4d9e-a098-57344be848a9', 2, 0, 'cells', '{"change": 1.0, "label": "region", "ranges": [], "run": "8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d"}', '', 1795390790, '873fef6ac3ba3eeab088e5ace5c4fc9ca24465477eafd0fdeb312583a099c86e', 'c4f774a0ab2df0133e55f1e8ea0cf3ca532d7a96cc367b3c4628e1ce30a0c8eb');
INSERT INTO public.decisions VALUES ('60f9b57f-f9e9-46ca-94eb-9e7c113d0cb7', 1, 0, 'cap', '{"delta": 1e-06, "epsilon": 2.0}', 'owner', 1795390798, 'caa77c591926c971e5d70b7b04b717c7348fa5f94235bde5d2cc42c81c03a8cd', '9690ff545c44eb8f029b8ea627f1f2fddb47272f88710758651c90ecef16fa13');
INSERT INTO public.decisions VALUES ('1f037189-78d4-4492-821c-08ec238bff45', 1, 0, 'frozen', '{"because": "for the test"}', 'owner', 1795390798, '1e48e38c61f22743ab93071ff79f4306086ca2f32b4481bf3f54ff48fde669db', 'ba8e85fb4ab0814022f2d474c6e847b8915136fed061c64eef49add0dc137c6e');


--
-- Data for Name: drafts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.drafts VALUES ('087d73fc-6fcb-4fdc-96fe-51239b1a6125', 2, '{"account": "survey", "protects": "person", "epsilon": 1.0, "columns": {"age": {"role": "number", "low": "0", "high": "100", "step": "1", "missing": true}, "region": {"role": ""}}}', 1795390799);


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events VALUES (1, 'cap', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', NULL, NULL, 'owner', '{}', 1795390780);
INSERT INTO public.events VALUES (2, 'owner-view', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 'a7bbfca0-2577-443e-8e47-2689436f16ad', NULL, 'owner', '{"what": "report"}', 1795390786);
INSERT INTO public.events VALUES (3, 'same-table', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', NULL, '3d79f310-c7d8-455d-943e-3b5826525c66', '', '{}', 1795390786);
INSERT INTO public.events VALUES (4, 'same-table', 'bdb5c906-85e6-4969-94fc-85bce72622e4', NULL, '3d79f310-c7d8-455d-943e-3b5826525c66', '', '{}', 1795390786);
INSERT INTO public.events VALUES (5, 'table-deleted', 'bdb5c906-85e6-4969-94fc-85bce72622e4', NULL, '3d79f310-c7d8-455d-943e-3b5826525c66', 'owner', '{}', 1795390789);
INSERT INTO public.events VALUES (6, 'same-table', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', NULL, '5f7d3050-6d2c-4675-bad2-771c8418f6d5', '', '{}', 1795390789);
INSERT INTO public.events VALUES (7, 'same-table', 'bdb5c906-85e6-4969-94fc-85bce72622e4', NULL, '5f7d3050-6d2c-4675-bad2-771c8418f6d5', '', '{}', 1795390789);
INSERT INTO public.events VALUES (8, 'same-table', '3c4c243d-a084-4d9e-a098-57344be848a9', NULL, '5f7d3050-6d2c-4675-bad2-771c8418f6d5', '', '{}', 1795390789);
INSERT INTO public.events VALUES (9, 'table-deleted', '3c4c243d-a084-4d9e-a098-57344be848a9', NULL, '5f7d3050-6d2c-4675-bad2-771c8418f6d5', 'owner', '{}', 1795390792);
INSERT INTO public.events VALUES (10, 'owner-view', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', NULL, NULL, 'owner', '{"what": "kinds of columns"}', 1795390793);
INSERT INTO public.events VALUES (11, 'cap', '60f9b57f-f9e9-46ca-94eb-9e7c113d0cb7', NULL, NULL, 'owner', '{}', 1795390798);
INSERT INTO public.events VALUES (12, 'frozen', '1f037189-78d4-4492-821c-08ec238bff45', NULL, NULL, 'owner', '{"because": "for the test"}', 1795390798);


--
-- Data for Name: hermitage_commits; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hermitage_commits VALUES ('049981f42a334b5c8eaa2b429f456676', 5, '2026-11-22 23:39:40.634008+00');
INSERT INTO public.hermitage_commits VALUES ('833dec3914d64e75b63ac842bfdec045', 17, '2026-11-22 23:39:52.881368+00');
INSERT INTO public.hermitage_commits VALUES ('a4e1dc426896462bbe789e1da1a39369', 12, '2026-11-22 23:39:52.882855+00');
INSERT INTO public.hermitage_commits VALUES ('531169973c704479a28aec3e98e99703', 20, '2026-11-22 23:39:46.303799+00');
INSERT INTO public.hermitage_commits VALUES ('717af005d36842bbb11107d48fbdd942', 11, '2026-11-22 23:39:46.30955+00');
INSERT INTO public.hermitage_commits VALUES ('a2124345bdb745f2b8ac4ef11ad2f53c', 34, '2026-11-22 23:39:58.833822+00');
INSERT INTO public.hermitage_commits VALUES ('6171435b35364e95b35a8a79e0be4b88', 13, '2026-11-22 23:39:49.320962+00');
INSERT INTO public.hermitage_commits VALUES ('1e844d2640ea47a5ac03fe9f91ceb75d', 16, '2026-11-22 23:39:49.323264+00');
INSERT INTO public.hermitage_commits VALUES ('14cba70fb1f74260bfe78729c09d30f9', 17, '2026-11-22 23:39:58.936742+00');
INSERT INTO public.hermitage_commits VALUES ('29b97e4637144996adfef3e43ac55987', 12, '2026-11-22 23:39:59.002467+00');
INSERT INTO public.hermitage_commits VALUES ('c9410bfadfdc450381226277e7567dc8', 3, '2026-11-22 23:39:59.027684+00');


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('e1eba03a-bfe9-40e2-89b7-ae20af37a645', 'a7bbfca0-2577-443e-8e47-2689436f16ad', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 'c0a58647350362e7', 'c0a58647350362e748b0f34ff65169e4f277a63156353c0f95b464faa1a36c5f', '{"1": "run from the command line or Python"}', 'owner', 1795390786);
INSERT INTO public.releases VALUES ('8db7d211-b2a7-4058-a071-de6b1b4da679', '65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'bdb5c906-85e6-4969-94fc-85bce72622e4', 'f2225e56de1ac6fc', 'f2225e56de1ac6fc7ea0c58dd12b12ae1581b8b86e736ea922d387e3780fbe0b', '{"1": "run from the command line or Python"}', 'owner', 1795390789);
INSERT INTO public.releases VALUES ('1b48ad34-ce63-4841-9ca5-758c7c9208a4', '8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', '3c4c243d-a084-4d9e-a098-57344be848a9', 'c0ba556e39f63634', 'c0ba556e39f636347a5c789da3596a0d65d9efe302bd988d8f421bb668dfe029', '{"1": "run from the command line or Python"}', 'owner', 1795390792);


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('a7bbfca0-2577-443e-8e47-2689436f16ad', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'bdb5c906-85e6-4969-94fc-85bce72622e4', '3d79f310-c7d8-455d-943e-3b5826525c66', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cpu');
INSERT INTO public.runs VALUES ('8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', '3c4c243d-a084-4d9e-a098-57344be848a9', '5f7d3050-6d2c-4675-bad2-771c8418f6d5', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "cells", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-05}, "holdout": 0.0, "generator": {"name": "kahm", "options": {"mode": "cell", "n": 2}}, "rows": 60, "label": "region", "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}, "protection": "cell", "cell_change": 1.0}', 'cpu');
INSERT INTO public.runs VALUES ('e93729ee-78af-456f-b455-21e499ba721e', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('8617a0fa-783b-4d20-bc64-7dc58995b597', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('afef98ff-0857-4e0d-9b6d-c255cde8c539', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('6861b5ce-5458-4ac2-be65-c1cb3000d7f2', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);
INSERT INTO public.runs VALUES ('de905b53-7cf3-4df8-b7d1-46f9a851aff9', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', '087d73fc-6fcb-4fdc-96fe-51239b1a6125', NULL, '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', NULL);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (6, NULL);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tables VALUES ('087d73fc-6fcb-4fdc-96fe-51239b1a6125', '029e7fd1-e0e0-4c12-acb4-5a9586d4578c', 'visits.csv', 'table', 2593, 'stored', 'c822dcd243b4adf5550d8faf0e91f246f4b5ca9e08d8b3ddeb166bc410e1f14c', 5395390781, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795390781, NULL);
INSERT INTO public.tables VALUES ('3d79f310-c7d8-455d-943e-3b5826525c66', 'bdb5c906-85e6-4969-94fc-85bce72622e4', 'visits.csv', 'table', 2593, 'deleted', 'c822dcd243b4adf5550d8faf0e91f246f4b5ca9e08d8b3ddeb166bc410e1f14c', 5395390786, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795390786, 1795390789);
INSERT INTO public.tables VALUES ('5f7d3050-6d2c-4675-bad2-771c8418f6d5', '3c4c243d-a084-4d9e-a098-57344be848a9', 'visits.csv', 'table', 2593, 'deleted', 'c822dcd243b4adf5550d8faf0e91f246f4b5ca9e08d8b3ddeb166bc410e1f14c', 5395390789, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795390789, 1795390792);


--
-- Data for Name: work; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.work VALUES ('77833ccd-6ec4-4af7-95b1-4b4f439ca76f', 'rehearsal', '0000000000000000000000000000000000000000000000000000000000000000', '"what was asked"', 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390798, 1795390798, NULL);
INSERT INTO public.work VALUES ('73c26d57-10a1-45ee-a570-71bdf426d3d4', 'grid', '1111111111111111111111111111111111111111111111111111111111111111', '"what was asked"', 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390798, 1795390798, 1795390798);
INSERT INTO public.work VALUES ('103701b9-cfe3-498c-bfbd-e47e81f4d0f6', 'report', 'a7bbfca0-2577-443e-8e47-2689436f16ad predictions', '"what was asked"', 'owner', 'reported', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390798, 1795390798, 1795390798);
INSERT INTO public.work VALUES ('a7bbfca0-2577-443e-8e47-2689436f16ad', 'run', 'a7bbfca0-2577-443e-8e47-2689436f16ad', NULL, 'owner', 'released', 'Reporting to the owner', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 5125, 3.548948664097337e+15, true, 1, 1795390784, NULL, 1795390781, 1795390781, 1795390786);
INSERT INTO public.work VALUES ('8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', 'run', '8c9c8aa3-3c3d-4fcf-9b9f-5850f684616d', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 5125, 3.548948664097337e+15, true, 1, 1795390792, NULL, 1795390790, 1795390790, 1795390792);
INSERT INTO public.work VALUES ('e93729ee-78af-456f-b455-21e499ba721e', 'run', 'e93729ee-78af-456f-b455-21e499ba721e', NULL, 'owner', 'planned', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795390794, NULL, NULL);
INSERT INTO public.work VALUES ('de905b53-7cf3-4df8-b7d1-46f9a851aff9', 'run', 'de905b53-7cf3-4df8-b7d1-46f9a851aff9', NULL, 'owner', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began. Its budget never became spent, so it was freed.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, 1795390798, NULL, 1795390798);
INSERT INTO public.work VALUES ('65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', 'run', '65d120f0-9772-4ee5-bb5f-fe5fb1ba25e1', NULL, 'owner', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 5125, 3.548948664097337e+15, true, 1, 1795390789, NULL, 1795390787, 1795390787, 1795390789);
INSERT INTO public.work VALUES ('8617a0fa-783b-4d20-bc64-7dc58995b597', 'run', '8617a0fa-783b-4d20-bc64-7dc58995b597', NULL, 'owner', 'queued', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 1, NULL, NULL, NULL, false, 0, NULL, NULL, 1795390795, NULL, NULL);
INSERT INTO public.work VALUES ('afef98ff-0857-4e0d-9b6d-c255cde8c539', 'run', 'afef98ff-0857-4e0d-9b6d-c255cde8c539', NULL, 'owner', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 2, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390796, 1795390798, NULL);
INSERT INTO public.work VALUES ('6861b5ce-5458-4ac2-be65-c1cb3000d7f2', 'run', '6861b5ce-5458-4ac2-be65-c1cb3000d7f2', NULL, 'owner', 'measured', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 3, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390797, 1795390798, NULL);
INSERT INTO public.work VALUES ('7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', 'run', '7a3f2865-a81a-4bd0-9ef9-8b9d11f0c56c', NULL, 'owner', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 1, 4, 'a machine of before', 1, 1, true, 1, 1795390798, NULL, 1795390798, 1795390798, 1795390798);
INSERT INTO public.work VALUES ('88a4c41a-63c8-4f9e-9eee-f197beae348e', 'report', 'a7bbfca0-2577-443e-8e47-2689436f16ad shadow-models', '"what was asked"', 'owner', 'cancelled', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 1, 1, true, 1, 1795390799, NULL, 1795390798, 1795390799, 1795390799);


--
-- Name: events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_id_seq', 12, true);


--
-- Name: accounts accounts_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: charges charges_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (account_id, "position");


--
-- Name: decisions decisions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (account_id, number);


--
-- Name: drafts drafts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_pkey PRIMARY KEY (table_id);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);


--
-- Name: hermitage_commits hermitage_commits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hermitage_commits
    ADD CONSTRAINT hermitage_commits_pkey PRIMARY KEY (client);


--
-- Name: releases releases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (id);


--
-- Name: runs runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);


--
-- Name: store_version store_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_version
    ADD CONSTRAINT store_version_pkey PRIMARY KEY (number);


--
-- Name: tables tables_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_pkey PRIMARY KEY (id);


--
-- Name: work work_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.work
    ADD CONSTRAINT work_pkey PRIMARY KEY (id);


--
-- Name: ix_charges_charge_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_charge_id ON public.charges USING btree (charge_id);


--
-- Name: ix_charges_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_run_id ON public.charges USING btree (run_id);


--
-- Name: ix_events_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_account_id ON public.events USING btree (account_id);


--
-- Name: ix_events_kind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_kind ON public.events USING btree (kind);


--
-- Name: ix_releases_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_account_id ON public.releases USING btree (account_id);


--
-- Name: ix_releases_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_run_id ON public.releases USING btree (run_id);


--
-- Name: ix_runs_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_account_id ON public.runs USING btree (account_id);


--
-- Name: ix_tables_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_account_id ON public.tables USING btree (account_id);


--
-- Name: ix_tables_fingerprint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_fingerprint ON public.tables USING btree (fingerprint);


--
-- Name: ix_work_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_work_state ON public.work USING btree (state);


--
-- Name: ix_work_subject; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX ix_work_subject ON public.work USING btree (kind, subject);


--
-- Name: accounts accounts_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_fixed BEFORE UPDATE ON public.accounts FOR EACH ROW WHEN ((((new.id)::text IS DISTINCT FROM (old.id)::text) OR ((new.name)::text IS DISTINCT FROM (old.name)::text) OR (new.created IS DISTINCT FROM old.created) OR ((old.neighbours IS NOT NULL) AND ((new.neighbours)::text IS DISTINCT FROM (old.neighbours)::text)) OR ((old.protects IS NOT NULL) AND (new.protects IS DISTINCT FROM old.protects)) OR ((old.id_column IS NOT NULL) AND (new.id_column IS DISTINCT FROM old.id_column)) OR ((old.rows_per_unit IS NOT NULL) AND (new.rows_per_unit IS DISTINCT FROM old.rows_per_unit)))) EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: accounts accounts_stay; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER charges_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.charges FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: decisions decisions_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER decisions_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.decisions FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: events events_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: releases releases_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER releases_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: decisions decisions_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: drafts drafts_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


--
-- Name: releases releases_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_run_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);


--
-- Name: runs runs_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: runs runs_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


--
-- Name: runs runs_test_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_test_table_id_fkey FOREIGN KEY (test_table_id) REFERENCES public.tables(id);


--
-- Name: tables tables_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- PostgreSQL database dump complete
--


